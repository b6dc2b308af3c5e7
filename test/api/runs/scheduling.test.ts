/** WEFT_SCHEDULING on a whole server: a flood of one tenant, priorities, limits, and a worker that is killed. */
import t from 'tap'
import { startRoles } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)
const SLOTS = 4

t.test('tenants share four slots; limits hold while a worker dies', async t => {
  const roles = await startRoles({
    app: 'test/apps/basic',
    graphs: 1,
    env: {
      N_JOBS_PER_WORKER: `${SLOTS}`,
      WEFT_SCHEDULING: JSON.stringify({
        tenant: 'metadata.team',
        priority: { run: 'metadata.urgency' },
        limits: { tenants: { limited: 2 } },
      }),
    },
  })
  t.teardown(() => roles.stop())
  const [url] = roles.urls
  const client = lines.at(-1)!.connect(url!)
  const create = async (team: string, ms: number, more: object = {}) => {
    const { thread_id } = await client.threads.create()
    const { run_id } = await client.runs.create(thread_id, 'slow', { input: { ms }, metadata: { team, ...more } })
    return { thread_id, run_id }
  }
  const startOf = async ({ run_id }: { run_id: string }) => {
    const answer = await fetch(`${url}/runs/${run_id}/execution`)
    return Date.parse(((await answer.json()) as { started_at: string }).started_at)
  }
  const ended = async (runs: { thread_id: string; run_id: string }[]) => {
    for (const { thread_id, run_id } of runs) await client.runs.join(thread_id, run_id)
    return Promise.all(runs.map(async run => (await client.runs.get(run.thread_id, run.run_id)).status))
  }

  await t.test('the first run of a tenant passes a flood; so does an urgent one', async t => {
    const flood = []
    for (let i = 0; i < 60; i++) flood.push(await create('flood', 250))
    const late = await create('late', 10)
    const urgent = await create('flood', 10, { urgency: -5 })
    await ended([...flood, late, urgent])
    const starts = await Promise.all(flood.map(startOf))
    const after = (at: number) => starts.filter(start => start > at).length
    t.ok(after(await startOf(late)) >= 20, 'most of the flood started after the run of the other tenant')
    t.ok(after(await startOf(urgent)) >= 20, 'most of the flood started after the urgent run')
  })

  await t.test('a tenant with a limit never has more running runs, also after its worker was killed', async t => {
    const runs: Awaited<ReturnType<typeof create>>[] = []
    for (let i = 0; i < 10; i++) runs.push(await create('limited', 400))
    const count = async () => {
      const statuses = await Promise.all(
        runs.map(async run => (await client.runs.get(run.thread_id, run.run_id)).status),
      )
      return statuses.filter(status => status === 'running').length
    }
    await until(async () => (await count()) === 2)
    let most = 0
    let watching = true
    const watch = (async () => {
      while (watching) most = Math.max(most, await count())
    })()
    roles.graphs[0]!.kill('SIGKILL')
    await roles.add('graphs')
    t.same(
      await ended(runs),
      runs.map(() => 'success'),
    )
    watching = false
    await watch
    t.equal(most, 2)
  })

  await t.test('a priority that is none is refused', async t => {
    await t.rejects(create('a', 1, { urgency: 'high' }), /422.*metadata\.urgency: expected a whole number/s)
  })
})
