/** The order of runs on a thread is their position, which grows with each accepted run. */
import t from 'tap'
import { v7 } from 'uuid'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { create } from '../../workers/resources/runs/create.js'
import { stage } from './stage.js'

t.test('each run of a thread gets its own position', async t => {
  const { store, all } = await stage(t, 1)
  const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
  const { thread_id } = row
  await store.apply([{ step: 'threads.insert', row }])
  for (let i = 0; i < 3; i++) {
    const target = { app: BUILT_IN_APP, run_id: v7(), thread_id, mode: 'background', brings: null } as const
    await create(all[0]!, { assistant_id: 'g' }, target)
  }
  const { queue, next_position } = (await store.threads.get(BUILT_IN_APP, thread_id))!
  t.same(
    queue.map(({ position }) => position),
    [0, 1, 2],
  )
  t.equal(next_position, 3)
})
