/** A client that disconnects and returns at once: the resource workers receive both messages at the same time. */
import t from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import type { CallHead } from '../../schemas/calls.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { Store } from '../../store/port.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { create } from '../../workers/resources/runs/create.js'
import { runs } from '../../workers/resources/runs/rpc.js'
import { stage } from './stage.js'

type Handler = { handle(value: unknown, context: Context): Promise<Reply> }

t.test('a disconnect that is reported while its client returns cancels nothing', async t => {
  let meanwhile = async () => {}
  // The run has changed between the read and the write of a worker.
  const wrap = (store: Store): Store => ({
    ...store,
    runs: {
      ...store.runs,
      async summary(ids) {
        const rows = await store.runs.summary(ids)
        const work = meanwhile
        meanwhile = async () => {}
        await work()
        return rows
      },
    },
  })
  const { store, all } = await stage(t, 2, wrap, { disconnect_grace_ms: 60_000 })
  const context = (head: Partial<CallHead>): Context => ({
    head: { request_id: 'x', ...head },
    from: '',
    log: all[0]!.link.log,
  })
  const [one, other] = all.map(deps => runs(deps) as unknown as { disconnect: Handler; join: Handler })
  const made = async () => {
    const { thread_id } = newThread({ app: BUILT_IN_APP, thread_id: v7() })
    await store.apply([{ step: 'threads.insert', row: newThread({ app: BUILT_IN_APP, thread_id }) }])
    const run_id = v7()
    const body = { assistant_id: 'g', stream_resumable: true, on_disconnect: 'cancel' } as const
    await create(all[0]!, body, { app: BUILT_IN_APP, run_id, thread_id, mode: 'stream', brings: null })
    return { thread_id, run_id }
  }
  const leaves = (run_id: string) => one!.disconnect.handle({ run_id, reader: false, joined_at: null }, context({}))
  const comesBack = (params: { thread_id: string; run_id: string }) =>
    other!.join.handle(undefined, context({ params, run: { run_id: params.run_id, mode: 'stream', resumes: true } }))
  const due = async (run_id: string) => (await store.runs.get(run_id))!.cancel_due_at

  const gone = await made()
  await leaves(gone.run_id)
  t.type(await due(gone.run_id), 'number', 'the run of a client that left waits for its return')
  await comesBack(gone)
  t.equal(await due(gone.run_id), null, 'a client that returns later revokes it')

  const back = await made()
  meanwhile = async () => void (await comesBack(back))
  await leaves(back.run_id)
  t.equal(await due(back.run_id), null)
  t.type((await store.runs.get(back.run_id))!.joined_at, 'number')
})
