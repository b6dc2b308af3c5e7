/** Rates of WEFT_SCHEDULING on a whole server with several workers, of which some are killed. */
import t from 'tap'
import { startRoles } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { isShared } from '../../helpers/stores/store.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)
/** SQLite has one. */
const WORKERS = isShared ? 2 : 1

t.test('a rate holds over all workers, also while they die', async t => {
  const roles = await startRoles({
    app: 'test/apps/basic',
    resources: WORKERS,
    graphs: 2,
    env: {
      WEFT_SCHEDULING: JSON.stringify({
        tenant: 'metadata.team',
        rates: { tenants: { few: { max: 3, per: '1h', burst: 3 }, paced: { max: 5, per: '1s', burst: 2 } } },
      }),
    },
  })
  t.teardown(() => roles.stop())
  const [url] = roles.urls
  const client = lines.at(-1)!.connect(url!)
  const create = async (team: string, ms: number) => {
    const { thread_id } = await client.threads.create()
    const { run_id } = await client.runs.create(thread_id, 'slow', { input: { ms }, metadata: { team } })
    return { thread_id, run_id }
  }
  type Created = Awaited<ReturnType<typeof create>>
  const executionOf = async ({ run_id }: Created) =>
    (await (await fetch(`${url}/runs/${run_id}/execution`)).json()) as {
      attempt: number
      started_at: string | null
      waits_for: object | null
    }
  const startsOf = async (runs: Created[]) => {
    const all = await Promise.all(runs.map(async run => (await executionOf(run)).started_at))
    return all.filter(at => at !== null).map(at => Date.parse(at))
  }
  const endOf = async ({ thread_id, run_id }: Created) => {
    await client.runs.join(thread_id, run_id)
    return (await client.runs.get(thread_id, run_id)).status
  }

  await t.test('as many runs start as the burst, and the others say when they may', async t => {
    const runs: Created[] = []
    for (let i = 0; i < 6; i++) runs.push(await create('few', i < 3 ? 1_500 : 1))
    await until(async () => (await startsOf(runs)).length === 3)
    const free = new Date(Math.min(...(await startsOf(runs))) + 1_200_000).toISOString()
    for (const run of runs.slice(3)) {
      const { waits_for } = await executionOf(run)
      t.same(waits_for, { reason: 'rate', of: 'tenant', until: free })
    }
    t.equal(await endOf(await create('other', 1)), 'success', 'another tenant is not kept waiting')

    // Runs of the dead worker begin again, and no others begin.
    roles.graphs[0]!.kill('SIGKILL')
    roles.resources[0]!.kill('SIGKILL')
    if (WORKERS === 1) await roles.add('resources')
    for (const run of runs.slice(0, 3)) t.equal(await endOf(run), 'success')
    t.equal(await endOf(await create('other', 1)), 'success')
    t.equal((await startsOf(runs)).length, 3)
    for (const { thread_id, run_id } of runs.slice(3)) await client.runs.cancel(thread_id, run_id)
  })

  await t.test('runs that wait are woken when their time has come, in their order', async t => {
    const runs: Created[] = []
    for (let i = 0; i < 8; i++) runs.push(await create('paced', 1))
    for (const run of runs) t.equal(await endOf(run), 'success')
    const starts = await startsOf(runs)
    t.equal(starts.length, runs.length)
    t.same(
      starts,
      [...starts].sort((a, b) => a - b),
    )
    for (const [i, from] of starts.entries())
      for (const [more, to] of starts.slice(i).entries())
        t.ok(more < 2 + Math.floor((to - from) / 200), `${more + 1} starts in ${to - from} ms`)
  })
})
