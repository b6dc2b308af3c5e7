/** The promises of every store about runs that wait for a slot. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { RunRow } from '../../store/rows/runs.js'
import { run, thread } from './conformance-rows.js'

export function readyRunsConformance(t: Test, store: Store): void {
  const make = async (app: string, set: Partial<RunRow>) => {
    const row = thread({ app })
    const made = run(row.thread_id, { app, ...set })
    const failed = await store.apply([
      { step: 'threads.insert', row },
      { step: 'runs.insert', row: made },
    ])
    if (failed !== -1) throw new Error(`step ${failed} failed`)
    return made
  }

  t.test('ready runs come by pool and tenant, the most urgent and oldest ones of each', async t => {
    const app = randomUUID()
    const ready = (tenant: string | null, at: number, more: Partial<RunRow> = {}) =>
      make(app, { tenant, created_at: at, ready_at: at, pool: 'one', ...more })
    const a = [await ready('a', 3), await ready('a', 1), await ready('a', 9, { priority: -5 }), await ready('a', 2)]
    const none = await ready('', 7)
    const b = await ready('b', 8, { pool: 'two', key_id: 'k', started_at: 4 })
    await ready('a', 1, { ready_at: null })
    await ready(null, 1, { ready_at: null })
    for (const status of ['accepting', 'running', 'success'] as const) await ready('a', 1, { status })
    const ids = async (per: number, tenants: number) =>
      (await store.runs.ready(app, per, tenants)).map(({ run_id }) => run_id)
    t.same(
      await ids(3, 10),
      [none, a[2]!, a[1]!, a[3]!, b].map(({ run_id }) => run_id),
    )
    t.same(
      await ids(1, 2),
      [none, a[2]!].map(({ run_id }) => run_id),
      'no more tenants than asked for',
    )
    const { run_id, thread_id, pool, tenant, priority, created_at, graph_id, assistant_id, key_id, started_at } = b
    const place = { run_id, thread_id, pool, tenant, priority, created_at }
    const found = await store.runs.ready(app, 9, 9)
    t.same(found.at(-1), { ...place, graph_id, assistant_id, key_id, started_at })
    t.same(await store.runs.ready(randomUUID(), 9, 9), [])
  })

  t.test('running runs are counted by tenant, graph, assistant and key', async t => {
    const app = randomUUID()
    const running = (more: Partial<RunRow>) => make(app, { status: 'running', assistant_id: 'a', ...more })
    const { graph_id, assistant_id } = await running({ tenant: 'a' })
    await running({ tenant: 'a' })
    await running({ key_id: 'k' })
    await running({ tenant: 'a', status: 'pending' })
    const found = await store.runs.occupied(app)
    t.same(
      found.sort((x, y) => y.count - x.count),
      [
        { tenant: 'a', graph_id, assistant_id, key_id: null, count: 2 },
        { tenant: null, graph_id, assistant_id, key_id: 'k', count: 1 },
      ],
    )
  })
}
