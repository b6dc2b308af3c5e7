/** WEFT_SCHEDULING on a whole server: a flood of one tenant, priorities, limits, and a worker that is killed. */
import { setTimeout as sleep } from 'node:timers/promises'
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
    // They hold all slots until everything waits.
    const first = []
    for (let i = 0; i < SLOTS; i++) first.push(await create('flood', 60_000))
    for (const run of first) await until(async () => (await startOf(run)) > 0)
    const flood = []
    for (let i = 0; i < 40; i++) flood.push(await create('flood', 10))
    const late = await create('late', 10)
    const urgent = await create('flood', 10, { urgency: -5 })
    for (const { thread_id, run_id } of first) await client.runs.cancel(thread_id, run_id)
    await ended([...flood, late, urgent])
    const starts = await Promise.all(flood.map(startOf))
    const after = (at: number) => starts.filter(start => start > at).length
    t.ok(after(await startOf(late)) >= 20, 'most of the flood started after the run of the other tenant')
    t.ok(after(await startOf(urgent)) >= 20, 'most of the flood started after the urgent run')
  })

  await t.test('a tenant with a limit never has more running runs, also after its worker was killed', async t => {
    const runs: Awaited<ReturnType<typeof create>>[] = []
    for (let i = 0; i < 10; i++) runs.push(await create('limited', 400))
    // One read: of several, one may see a run before its end and the next one its successor.
    const count = async () => {
      const body = JSON.stringify({ status: 'running', metadata: { team: 'limited' }, limit: 100 })
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`${url}/runs/search`, { method: 'POST', headers, body })
      return ((await answer.json()) as unknown[]).length
    }
    await until(async () => (await count()) === 2)
    let most = 0
    let watching = true
    const watch = (async () => {
      while (watching) {
        most = Math.max(most, await count())
        // A run takes 400 ms; without a pause the looks would keep a core busy until the lease of the killed worker ends.
        await sleep(20)
      }
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

  await t.test('a waiting run says what it waits for', async t => {
    const waitOf = async ({ run_id }: { run_id: string }) => {
      const answer = await fetch(`${url}/runs/${run_id}/execution`)
      return ((await answer.json()) as { waits_for: object | null }).waits_for
    }
    const limited = [await create('limited', 60_000), await create('limited', 60_000)]
    for (const run of limited) await until(async () => (await startOf(run)) > 0)
    const third = await create('limited', 1)
    t.same(await waitOf(third), { reason: 'limit', of: 'tenant', running: 2, most: 2 })
    t.equal(await waitOf(limited[0]!), null, 'it has begun')
    const { thread_id } = limited[0]!
    const after = await client.runs.create(thread_id, 'slow', { input: { ms: 1 }, multitaskStrategy: 'enqueue' })
    t.same(await waitOf(after), { reason: 'thread', run_id: limited[0]!.run_id })
    const { thread_id: another } = await client.threads.create()
    const later = await client.runs.create(another, 'slow', { input: { ms: 1 }, afterSeconds: 3_600 })
    t.match(await waitOf(later), { reason: 'time', until: /^\d{4}-.*Z$/ })
    const others = [await create('other', 60_000), await create('other', 60_000)]
    for (const run of others) await until(async () => (await startOf(run)) > 0)
    t.same(await waitOf(await create('another', 1)), { reason: 'slot' })
    const ids = [...limited, ...others].map(({ run_id }) => run_id)
    for (const [i, { thread_id }] of [...limited, ...others].entries()) await client.runs.cancel(thread_id, ids[i]!)
  })

  await t.test('a priority that is none is refused', async t => {
    await t.rejects(create('a', 1, { urgency: 'high' }), /422.*metadata\.urgency: expected a whole number/s)
  })
})
