import t from 'tap'
import { openSweeps } from '../../workers/resources/sweeper.js'
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
  await openSweeps()
    .find(({ name }) => name === 'temporary runs')!
    .work(all[0]!)
  t.same(await store.runs.expired(now, now, 1_000), [], 'none is left for the next sweep')
  t.equal((await store.runs.summary(old)).length, 0)
  t.equal((await store.runs.summary(kept)).length, 2, 'a run that continues and one that can still be joined stay')
})

t.test('the sweeps find a young run behind more queued runs than a page holds', async t => {
  const { store, all, seen } = await stage(t, 1)
  const deps = all[0]!
  const old = Date.now() - 60_000
  // 21 threads, each with a running run and 1,000 queued ones: more than a sweep that reads the oldest 20,000 runs.
  for (let i = 0; i < 21; i++) {
    const row = thread({ status: 'busy', created_at: old, updated_at: old })
    const runs = Array.from({ length: 1_001 }, (_, n) =>
      run(row.thread_id, { status: n === 0 ? 'running' : 'pending', token: n === 0 ? 't' : null, created_at: old + n }),
    )
    row.active = { run_id: runs[0]!.run_id, attempt: 0, token: 't' }
    row.queue = runs.slice(1).map(({ run_id }, position) => ({ run_id, position, due_at: 0 }))
    await store.apply([
      { step: 'threads.insert', row },
      ...runs.map(row => ({ step: 'runs.insert' as const, row: { ...row, updated_at: Date.now() } })),
    ])
  }
  const add = async (status: 'running' | 'pending') => {
    const row = thread({ status: 'busy', updated_at: old })
    const one = run(row.thread_id, { status, token: 't', created_at: old + 30_000, updated_at: old })
    if (status === 'running') row.active = { run_id: one.run_id, attempt: 0, token: 't' }
    else row.queue = [{ run_id: one.run_id, position: 0, due_at: 0 }]
    await store.apply([
      { step: 'threads.insert', row },
      { step: 'runs.insert', row: one },
    ])
    return one.run_id
  }
  const [lost, waiting] = [await add('running'), await add('pending')]
  deps.holders.isDead = ({ run_id }) => run_id === lost
  const sweeps = openSweeps()
  const sweep = (wanted: string) => sweeps.find(({ name }) => name === wanted)!.work(deps)
  await sweep('dead holders')
  await seen(lost)
  await sweep('busy threads')
  await seen(waiting)
  t.pass('both were woken')
})
