import t from 'tap'
import { rows } from '../../workers/resources/sweeper.js'
import { run, thread } from '../store/conformance-rows.js'
import { stage } from './stage.js'

t.test('temporary runs are removed with their threads, however many ended', async t => {
  const { store, all } = await stage(t, 1)
  const now = Date.now()
  const add = async (ended_at: number | null) => {
    const row = thread({ temporary: true })
    const status = ended_at === null ? 'running' : 'success'
    const one = run(row.thread_id, { temporary: true, resumable: false, status, ended_at })
    await store.apply([
      { step: 'runs.insert', row: one },
      { step: 'threads.insert', row },
    ])
    return one.run_id
  }
  const old = await Promise.all(Array.from({ length: 450 }, () => add(now - 3_600_000)))
  const kept = [await add(null), await add(now)]
  await rows.find(({ name }) => name === 'temporary runs')!.work(all[0]!)
  t.same(await store.runs.expired(now, now, 1_000), [], 'none is left for the next time')
  t.equal((await store.runs.summary(old)).length, 0)
  t.equal((await store.runs.summary(kept)).length, 2, 'one that goes on and one that can be joined still stay')
})
