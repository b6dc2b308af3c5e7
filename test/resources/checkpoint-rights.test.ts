import t from 'tap'
import { v4, v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import type { CallHead, Lease } from '../../schemas/calls.js'
import type { TuplesHead } from '../../schemas/checkpoints.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import { checkpoints } from '../../workers/resources/checkpoints.js'
import { checkpoint, save, thread } from '../store/conformance-rows.js'
import { stage } from './stage.js'

t.test('checkpoints are read under the lease of their thread, or within their application', async t => {
  const { store, all } = await stage(t, 1)
  const { get, list } = checkpoints(all[0]!) as unknown as {
    [verb in 'get' | 'list']: { handle(query: object, context: Context): Promise<Reply> }
  }
  const active = { run_id: v7(), attempt: 1, token: v4() }
  const mine = thread({ app: 'mine', active, latest_checkpoint_id: 'c' })
  const other = thread({ app: 'other', latest_checkpoint_id: 'c' })
  for (const row of [mine, other])
    await store.apply([{ step: 'threads.insert', row }, save(row.thread_id, { checkpoints: [checkpoint('c', 1)] })])
  const context = ({ app = BUILT_IN_APP, ...head }: Partial<CallHead>) =>
    ({ head: { request_id: 'x', ...head }, sender: { app, pool: 'default' } }) as Context
  const lease: Lease = { ...active, thread_id: mine.thread_id }
  for (const handler of [get, list]) {
    const read = async (thread_id: string, head: Partial<CallHead>) => {
      const { body } = await handler.handle({ thread_id }, context(head))
      return unpack<TuplesHead>(body as Uint8Array).head.tuples.length
    }
    t.equal(await read(mine.thread_id, { lease }), 1)
    t.equal(await read(mine.thread_id, { app: 'mine' }), 1)
    await t.rejects(read(mine.thread_id, { lease: { ...lease, token: v4() } }), { code: 'fenced' })
    await t.rejects(read(other.thread_id, { lease }), { code: 'fenced' })
    await t.rejects(read(other.thread_id, { app: 'mine' }), { code: 'forbidden' })
    await t.rejects(read(other.thread_id, {}), { code: 'forbidden' })
    t.equal(await read(v7(), { app: 'mine' }), 0, 'a thread that an update will create')
  }
})
