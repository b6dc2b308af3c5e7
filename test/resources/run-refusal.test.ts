/** Which answers a thread takes: only of the graph that asked. */
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { RunCreate } from '../../schemas/runs.js'
import type { Store } from '../../store/port.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import type { Deps } from '../../workers/resources/context.js'
import { create } from '../../workers/resources/runs/create.js'
import { thread } from '../store/conformance-rows.js'
import { stage } from './stage.js'

const ASKED = '{"task":[{"id":"i","value":"why?"}]}'

async function open(t: Test, wrap: (store: Store) => Store = store => store) {
  const { store, all } = await stage(t, 1, wrap)
  const [deps] = all as [Deps]
  return {
    deps,
    /** Creates a run of graph `g` on a thread with these columns; null when the thread takes it, else the sentence. */
    async fault(row: Partial<ThreadRow>, body: Omit<RunCreate, 'assistant_id'> = { command: { resume: 'x' } }) {
      const { thread_id } = thread()
      await store.apply([{ step: 'threads.insert', row: thread({ ...row, thread_id }) }])
      const target = { app: BUILT_IN_APP, run_id: v7(), thread_id, mode: 'background', brings: null } as const
      return create(deps, { assistant_id: 'g', ...body }, target).then(
        () => null,
        (error: Error) => error.message,
      )
    },
  }
}

const of = (graph_id: string) => ({ left_by: { graph_id, assistant_id: v7() } })
const waits = { status: 'interrupted', settled: 'interrupted', interrupts: ASKED } as const

t.test('what waits decides, not the graph of the newest run', async t => {
  const { fault } = await open(t)
  const metadata = (graph_id: string) => ({ metadata: JSON.stringify({ graph_id }) })
  const refused = /graph 'other'.*graph 'g'.*graph 'other'$/
  t.match(await fault({ ...waits, ...of('other') }), refused)
  t.match(await fault({ ...waits, ...of('other'), ...metadata('g') }), refused)
  t.match(await fault({ ...waits, ...metadata('other') }), refused, 'a row of an earlier version')
  t.match(await fault({ ...waits, ...of('other'), interrupts: '{}' }), refused, 'it stopped before a node')
  t.match(await fault({ ...waits, ...of('other'), settled: 'error', status: 'error' }), refused, 'another task failed')
  t.match(await fault({ ...waits, ...of('other') }, { command: { resume: null } }), refused, 'null is an answer')
  t.match(await fault({ ...waits, ...of('other') }, { command: { resume: 'x' }, after_seconds: 0 }), refused)

  t.equal(await fault({ ...waits, ...of('g'), ...metadata('other') }), null)
  t.equal(await fault({ ...waits, ...metadata('g') }), null)
  t.equal(await fault({ ...waits }), null, 'nobody knows')
  t.equal(await fault({ ...of('other') }), null, 'nothing waits')
  t.equal(await fault({ ...of('other'), settled: 'error', status: 'error' }), null, 'it failed, and asked nothing')
  for (const body of [{ input: {} }, {}, { command: { goto: 'x' } }, { command: { update: {} } }])
    t.equal(await fault({ ...waits, ...of('other') }, body), null, JSON.stringify(body))
  t.equal(await fault({ ...waits, ...of('other') }, { command: { resume: 'x' }, after_seconds: 60 }), null, 'later')
})

t.test('the answer may come from another graph once the one that asked is no longer served', async t => {
  const { deps, fault } = await open(t)
  const row = { ...waits, ...of('old') }
  const announce = (graphs: string[]) => {
    for (const graph_id of graphs) deps.apps.announce(BUILT_IN_APP, graph_id, 'default')
    deps.apps.setAnnounced('default', { app: BUILT_IN_APP, graphs })
  }
  t.match(await fault(row), /graph 'old'/, 'no graph worker has said which graphs there are')
  announce(['g', 'old'])
  t.match(await fault(row), /graph 'old'/)
  announce(['g'])
  t.equal(await fault(row), null)
})

t.test('an answer reads no more of the store than an input', async t => {
  let reads = 0
  const counted = <Reads extends object>(noun: Reads): Reads =>
    Object.fromEntries(
      Object.entries(noun).map(([name, read]) => [
        name,
        (...given: unknown[]) => {
          reads++
          return read(...given)
        },
      ]),
    ) as Reads
  const { fault } = await open(t, store => ({
    ...store,
    assistants: counted(store.assistants),
    threads: counted(store.threads),
    runs: counted(store.runs),
    checkpoints: counted(store.checkpoints),
    records: counted(store.records),
  }))
  const row = { ...waits, ...of('g') }
  const readsOf = async (body: Omit<RunCreate, 'assistant_id'>) => {
    const before = reads
    t.equal(await fault(row, body), null)
    return reads - before
  }
  await readsOf({ input: {} })
  t.equal(await readsOf({ command: { resume: 'x' } }), await readsOf({ input: {} }))
})
