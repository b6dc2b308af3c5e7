/** The promises of every store about runs: conditions of a write, lists of open runs, and due times (store/port.ts). */
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { RunRow } from '../../store/rows/runs.js'
import type { Step } from '../../store/steps.js'
import { APP, bytes, run, thread } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

export function runConformance(t: Test, store: Store): void {
  const { done, newThread, newRun, patchRev } = writer(store)

  t.test('a run comes back as it was, its summary without the payload', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, {
      resumable: false,
      temporary: true,
      attempt: 2,
      token: 'tok',
      cancel: 'rollback',
      last_event_id: 2_000_000_017,
      error: '{"error":"E","message":"m"}',
      kwargs: '{"input":{"__proto__":1}}',
      auth_user: '{"identity":"alice"}',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    })
    t.same(await store.runs.get(row.run_id), row)
    const { kwargs: _, result: __, auth_user: ___, traceparent: ____, ...summary } = row
    t.same(await store.runs.summary([row.run_id, 'absent']), [summary])
    t.same(await store.runs.summary([]), [])
    t.equal(await store.runs.get('absent'), null)
  })

  t.test('the open runs of a key are counted', async t => {
    const { thread_id } = await newThread()
    const key_id = `key-${thread_id}`
    for (const status of ['accepting', 'pending', 'success', 'error'] as const)
      await newRun(thread_id, { status, key_id })
    const { run_id } = await newRun(thread_id, { status: 'running', key_id })
    await newRun(thread_id, { status: 'running' })
    t.equal(await store.runs.countOpen(key_id, 10), 3)
    t.equal(await store.runs.countOpen(key_id, 2), 2)
    t.equal(await store.runs.countOpen('other', 10), 0)
    await store.apply([{ step: 'runs.patch', run_id, where: {}, set: { status: 'success' } }])
    t.equal(await store.runs.countOpen(key_id, 10), 2)
  })

  t.test('a repeated create of an accepting run counts as done; any other known id does not', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, { status: 'accepting' })
    const repeat: Step = { step: 'runs.insert', row: { ...row, heartbeats: 5 } }
    t.equal(await store.apply([repeat]), -1)
    t.same(await store.runs.get(row.run_id), row, 'the stored row stays')
    t.equal(await store.apply([{ step: 'runs.insert', row: { ...row, thread_id: 'another' } }]), 0)
    await done({
      step: 'runs.patch',
      run_id: row.run_id,
      where: { status: ['accepting'] },
      set: { status: 'pending' },
    })
    t.equal(await store.apply([repeat]), 0)
    t.equal((await store.runs.get(row.run_id))?.status, 'pending')
  })

  t.test('of 50 claims of one run exactly one wins', async t => {
    const { thread_id } = await newThread()
    const { run_id } = await newRun(thread_id)
    const claim = (i: number): Step => ({
      step: 'runs.patch',
      run_id,
      where: { status: ['pending'], attempt: 0 },
      set: { status: 'running', attempt: 1, token: `t${i}` },
    })
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => store.apply([claim(i)])))
    t.equal(outcomes.filter(failed => failed === -1).length, 1)
    t.equal((await store.runs.get(run_id))?.token, `t${outcomes.indexOf(-1)}`)
  })

  t.test('a patch of a run holds all of its conditions and may set the payload', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, { status: 'running', attempt: 2, token: 'tok' })
    const patch = (where: Extract<Step, { step: 'runs.patch' }>['where'], set = {}): Step => ({
      step: 'runs.patch',
      run_id: row.run_id,
      where,
      set,
    })
    t.equal(await store.apply([patch({ status: ['pending', 'accepting'] })]), 0)
    t.equal(await store.apply([patch({ status: [] })]), 0)
    t.equal(await store.apply([patch({ attempt: 1, token: 'tok' })]), 0)
    t.equal(await store.apply([patch({ attempt: 2, token: 'no' })]), 0)
    t.equal(await store.apply([{ step: 'runs.patch', run_id: 'absent', where: {}, set: {} }]), 0)
    t.same(await store.runs.get(row.run_id), row)
    const set = { status: 'success' as const, token: null, ended_at: 9, resumable: false, result: bytes('{"x":1}') }
    await done(patch({ status: ['pending', 'running'], attempt: 2, token: 'tok' }, set))
    const { result, ...rest } = (await store.runs.get(row.run_id))!
    t.same(Buffer.from(result!), Buffer.from('{"x":1}'))
    t.same({ ...rest, result: null }, { ...row, ...set, result: null })
    await done(patch({}, { result: null, kwargs: '{}' }))
    t.match(await store.runs.get(row.run_id), { result: null, kwargs: '{}' })
  })

  t.test('a heartbeat counts only for those who still hold the run', async t => {
    const { thread_id } = await newThread()
    const mine = await newRun(thread_id, { token: 'mine', heartbeats: 4 })
    const lost = await newRun(thread_id, { token: 'theirs' })
    const free = await newRun(thread_id)
    await done({
      step: 'runs.beat',
      runs: [mine, lost, free, { run_id: 'absent' }].map(({ run_id }) => ({ run_id, token: 'mine' })),
    })
    await done({ step: 'runs.beat', runs: [] })
    const counts = (await store.runs.summary([mine.run_id, lost.run_id, free.run_id])).map(({ run_id, heartbeats }) => [
      run_id,
      heartbeats,
    ])
    t.same(Object.fromEntries(counts), { [mine.run_id]: 5, [lost.run_id]: 0, [free.run_id]: 0 })
  })

  t.test('unsettled runs come oldest first, without ended ones', async t => {
    const { thread_id } = await newThread()
    const made = new Map<string, RunRow>()
    for (const [i, status] of (['running', 'pending', 'accepting', 'success', 'error', 'pending'] as const).entries())
      made.set(`${status}${i}`, await newRun(thread_id, { status, created_at: 100 - i }))
    const found = (await store.runs.unsettled(1_000)).filter(row => row.thread_id === thread_id)
    t.same(
      found.map(({ run_id }) => run_id),
      ['pending5', 'accepting2', 'pending1', 'running0'].map(name => made.get(name)!.run_id),
    )
    t.notOk('kwargs' in found[0]!)
    t.same(
      (await store.runs.unsettled(2)).map(({ run_id }) => run_id),
      ['pending5', 'accepting2'].map(name => made.get(name)!.run_id),
      'the oldest of all',
    )
  })

  t.test('the runs of a thread, newest first, by status and by page', async t => {
    const { thread_id } = await newThread()
    const other = await newThread()
    await newRun(other.thread_id)
    const made: RunRow[] = []
    for (const [i, status] of (['success', 'pending', 'error', 'accepting', 'success', 'running'] as const).entries())
      made.push(await newRun(thread_id, { status, created_at: 100 + i, error: '{"x":1}' }))
    // Made in the same millisecond: their ids decide.
    const [a, b] = ['a', 'b'].map(end => `0198f2a5-0000-7000-8000-${thread_id.slice(-11)}${end}`)
    for (const run_id of [b!, a!]) made.push(await newRun(thread_id, { status: 'pending', run_id, created_at: 50 }))
    const ids = (rows: { run_id: string }[]) => rows.map(({ run_id }) => run_id)
    const order = [5, 4, 2, 1, 0].map(i => made[i]!.run_id).concat(b!, a!)
    const all = await store.runs.list({ thread_id, limit: 100 })
    t.same(ids(all), order)
    t.notOk('kwargs' in all[0]!)
    t.equal(all[0]!.error, '{"x":1}')
    t.same(ids(await store.runs.list({ thread_id, limit: 3 })), order.slice(0, 3))
    t.same(ids(await store.runs.list({ thread_id, skip: 5, limit: 3 })), order.slice(5))
    t.same(ids(await store.runs.list({ thread_id, skip: 50, limit: 3 })), [])
    for (const at of [0, 2, 5])
      t.same(ids(await store.runs.list({ thread_id, after: all[at]!, limit: 2 })), order.slice(at + 1, at + 3))
    t.same(ids(await store.runs.list({ thread_id, status: ['success'], limit: 9 })), [order[1], order[4]])
    t.same(ids(await store.runs.list({ thread_id, status: ['pending', 'error'], skip: 1, limit: 2 })), [order[3], b])
    t.same(await store.runs.list({ thread_id, status: [], limit: 9 }), [])
    t.same(await store.runs.list({ thread_id: 'absent', limit: 9 }), [])
  })

  t.test('pending and running runs of an application, oldest first, by page', async t => {
    const app = `app-${Math.random()}`
    const { thread_id } = await newThread({ app })
    const made: string[] = []
    for (const [i, status] of (['running', 'pending', 'accepting', 'success', 'pending'] as const).entries())
      made.push((await newRun(thread_id, { app, status, created_at: 100 - i })).run_id)
    const ids = (rows: { run_id: string }[]) => rows.map(({ run_id }) => run_id)
    const both = await store.runs.active(app, ['pending', 'running'], 10)
    t.same(ids(both), [made[4], made[1], made[0]])
    t.same(ids(await store.runs.active(app, ['pending'], 10)), [made[4], made[1]])
    t.same(ids(await store.runs.active(app, ['running'], 10)), [made[0]])
    t.same(ids(await store.runs.active(app, ['pending', 'running'], 1)), [made[4]])
    t.same(ids(await store.runs.active(app, ['pending', 'running'], 10, both[0]!)), [made[1], made[0]])
    t.same(await store.runs.active('another', ['pending', 'running'], 10), [])
  })

  t.test('claimed runs of a thread come in the order of their claims', async t => {
    const { thread_id } = thread()
    const rows = [5, 3, null, 9, 4].map(claim_no => run(thread_id, { claim_no }))
    const other = run(thread().thread_id, { claim_no: 4 })
    await store.apply([...rows, other].map(row => ({ step: 'runs.insert' as const, row })))
    const claims = async (from: number, limit: number) =>
      (await store.runs.claimed(thread_id, from, limit)).map(one => one.claim_no)
    t.same(await claims(0, 10), [3, 4, 5, 9])
    t.same(await claims(4, 10), [4, 5, 9])
    t.same(await claims(4, 2), [4, 5])
    t.same(await claims(10, 10), [])
    const { run_id } = rows[2]!
    await store.apply([{ step: 'runs.patch', run_id, where: {}, set: { claim_no: 10 } }])
    t.same(await claims(9, 10), [9, 10])
  })

  t.test('running and unsettled runs come page by page', async t => {
    const { thread_id } = await newThread()
    const ids: string[] = []
    const before = await store.runs.counts()
    for (const status of ['running', 'pending', 'running', 'success', 'running'] as const)
      ids.push((await newRun(thread_id, { status, attempt: 2, token: 't', heartbeats: 7 })).run_id)
    t.same(await store.runs.counts(), { pending: before.pending + 1, running: before.running + 3 })
    const running = [ids[0]!, ids[2]!, ids[4]!].sort()
    const found: { run_id: string; attempt: number; heartbeats: number }[] = []
    for (
      let page = await store.runs.running(2);
      page.length > 0;
      page = await store.runs.running(2, page.at(-1)!.run_id)
    )
      found.push(...page)
    const mine = found.filter(({ run_id }) => ids.includes(run_id))
    t.same(
      mine,
      running.map(run_id => ({ run_id, attempt: 2, heartbeats: 7 })),
    )
    const unsettled: string[] = []
    for (let page = await store.runs.unsettled(2); page.length > 0; page = await store.runs.unsettled(2, page.at(-1)))
      unsettled.push(...page.map(({ run_id }) => run_id))
    t.same(unsettled.filter(id => ids.includes(id)).sort(), [...running, ids[1]!].sort())
  })

  t.test('a patch of a run fails when its heartbeats have changed', async t => {
    const { thread_id } = await newThread()
    const { run_id } = await newRun(thread_id, { status: 'running', token: 't', heartbeats: 3 })
    const patch = (heartbeats: number) =>
      store.apply([{ step: 'runs.patch', run_id, where: { token: 't', heartbeats }, set: { worker: 'w' } }])
    t.equal(await patch(2), 0)
    t.equal(await patch(3), -1)
  })

  t.test('unsettled leaves out those whose start is still due', async t => {
    const { thread_id } = await newThread()
    const plain = await newRun(thread_id, { created_at: 50, due_at: 0 })
    const delayed = await newRun(thread_id, { created_at: 51, due_at: 5_000 })
    const accepting = await newRun(thread_id, { created_at: 52, due_at: 5_000, status: 'accepting' })
    const ids = async () =>
      (await store.runs.unsettled(1_000)).filter(row => row.thread_id === thread_id).map(({ run_id }) => run_id)
    t.same(await ids(), [plain.run_id, accepting.run_id])
    await done({ step: 'runs.patch', run_id: delayed.run_id, where: { due_at: 5_000 }, set: { due_at: 0 } })
    t.same(await ids(), [plain.run_id, delayed.run_id, accepting.run_id])
  })

  t.test('starts are due at their time, earliest first, while the run is pending', async t => {
    const { thread_id } = await newThread()
    const due = async (set: Partial<RunRow>) => (await newRun(thread_id, set)).run_id
    const [exact, early] = [await due({ due_at: 2_000 }), await due({ due_at: 1_000 })]
    await due({ due_at: 2_001 })
    await due({ due_at: 0 })
    await due({ due_at: 1_000, status: 'accepting' })
    await due({ due_at: 1_000, status: 'interrupted' })
    const ids = async (limit: number) => (await store.runs.startsDue(2_000, limit)).map(({ run_id }) => run_id)
    t.same(await ids(100), [early, exact])
    t.same(await ids(1), [early])
    const off = (due_at: number): Step => ({
      step: 'runs.patch',
      run_id: early,
      where: { status: ['pending'], due_at },
      set: { due_at: 0 },
    })
    const both = await Promise.all([store.apply([off(1_000)]), store.apply([off(1_000)])])
    t.same(both.sort(), [-1, 0], 'one of two takes it')
    t.same(await ids(100), [exact])
  })

  t.test('cancels are due at their time, earliest first', async t => {
    const { thread_id } = await newThread()
    const exact = await newRun(thread_id, { cancel_due_at: 2_000 })
    const early = await newRun(thread_id, { cancel_due_at: 1_000 })
    await newRun(thread_id, { cancel_due_at: 2_001 })
    await newRun(thread_id)
    const ids = async (limit: number) => (await store.runs.cancelsDue(2_000, limit)).map(({ run_id }) => run_id)
    t.same(await ids(100), [early.run_id, exact.run_id])
    t.same(await ids(1), [early.run_id])
    await done({ step: 'runs.patch', run_id: early.run_id, where: {}, set: { cancel_due_at: null } })
    t.same(await ids(100), [exact.run_id])
  })

  t.test('what is optional is done where it matches, and stops nothing where it does not', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, { status: 'running', token: 'tok', webhook_due_at: 9_002 })
    const patch = (where: Extract<Step, { step: 'runs.patch' }>['where']): Step => ({
      step: 'runs.patch',
      run_id: row.run_id,
      where,
      set: { cancel: 'interrupt', kwargs: '{"changed":1}' },
      optional: true,
    })
    const remove: Step = { step: 'runs.remove', run_id: row.run_id, where: { status: ['pending'] }, optional: true }
    await done(patch({ status: ['pending'] }), patch({ token: 'no' }), patch({ webhook_due_at: 9_001 }), remove)
    await done(patch({ joined_at: 9_003 }))
    await done({ ...remove, run_id: 'absent' } as Step, patchRev(thread_id, 0))
    t.same(await store.runs.get(row.run_id), row)
    t.equal((await store.threads.get(APP, thread_id))?.rev, 1, 'the steps after it are done')
    await done({ ...patch({ joined_at: null }), set: { joined_at: 9_003 } } as Step, patch({ joined_at: null }))
    t.same(await store.runs.get(row.run_id), { ...row, joined_at: 9_003 }, 'no client had joined before')
    await done(patch({ webhook_due_at: 9_002, token: 'tok', joined_at: 9_003 }))
    t.match(await store.runs.get(row.run_id), { cancel: 'interrupt', kwargs: '{"changed":1}' })
    await done({ ...remove, where: { status: ['running'] } } as Step)
    t.equal(await store.runs.get(row.run_id), null)
  })

  t.test('a run is removed alone, and only when it matches', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, { status: 'accepting', attempt: 1, token: 'tok' })
    const other = await newRun(thread_id)
    const remove = (where: Extract<Step, { step: 'runs.remove' }>['where'], run_id = row.run_id): Step => ({
      step: 'runs.remove',
      run_id,
      where,
    })
    t.equal(await store.apply([remove({ status: ['pending'] })]), 0)
    t.equal(await store.apply([remove({ attempt: 2 })]), 0)
    t.equal(await store.apply([remove({ token: 'no' })]), 0)
    t.equal(await store.apply([remove({}, 'absent')]), 0)
    t.same(await store.runs.get(row.run_id), row)
    await done(remove({ status: ['accepting'], attempt: 1, token: 'tok' }))
    t.equal(await store.runs.get(row.run_id), null)
    t.equal(await store.apply([remove({})]), 0, 'it was removed')
    t.same(await store.runs.get(other.run_id), other)
    t.ok(await store.threads.get(APP, thread_id))
    await newRun(thread_id, { run_id: row.run_id, kwargs: '{"input":"new"}' })
    t.equal((await store.runs.get(row.run_id))?.kwargs, '{"input":"new"}', 'no old payload comes back')
  })

  t.test('webhooks are due at their time, earliest first', async t => {
    const { thread_id } = await newThread()
    const due = async (webhook_due_at: number | null) =>
      (await newRun(thread_id, { status: 'success', webhook: 'https://example.com/', webhook_due_at })).run_id
    const [exact, early] = [await due(2_000), await due(1_000)]
    await due(2_001)
    await due(null)
    const ids = async (limit: number) => (await store.runs.webhooksDue(2_000, limit)).map(({ run_id }) => run_id)
    t.same(await ids(100), [early, exact])
    t.same(await ids(1), [early])
    const taken: Step = {
      step: 'runs.patch',
      run_id: early,
      where: { webhook_due_at: 1_000 },
      set: { webhook_due_at: null, webhook_tries: 1 },
    }
    const both = await Promise.all([store.apply([taken]), store.apply([taken])])
    t.same(both.sort(), [-1, 0], 'one of two takes it')
    t.same(await ids(100), [exact])
    t.match(await store.runs.get(early), { webhook: 'https://example.com/', webhook_tries: 1 })
  })

  t.test('what is kept of the deliveries of a run is set with its due time, and read with it alone', async t => {
    const { thread_id } = await newThread()
    const row = await newRun(thread_id, { status: 'success', webhook: 'https://example.com/', webhook_due_at: 1_000 })
    const { run_id } = row
    t.equal(await store.runs.webhookLog('absent'), null)
    t.same(await store.runs.webhookLog(run_id), { webhook_due_at: 1_000, webhook_log: null })
    const patch = (due: number | null, set: Extract<Step, { step: 'runs.patch' }>['set']): Step => ({
      step: 'runs.patch',
      run_id,
      where: { webhook_due_at: due },
      set,
    })
    const webhook_log = JSON.stringify([{ error: '\ud800 $set \0' }])
    await done(patch(1_000, { webhook_due_at: null, webhook_log }))
    t.same(await store.runs.webhookLog(run_id), { webhook_due_at: null, webhook_log })
    t.same(await store.runs.get(run_id), { ...row, webhook_due_at: null }, 'other reads have none of it')
    t.notOk(Object.hasOwn((await store.runs.summary([run_id]))[0]!, 'webhook_log'))
    t.equal(await store.apply([patch(1_000, { webhook_log: '[]' })]), 0)
    await done(patch(null, { webhook_due_at: 2_000 }))
    t.same(await store.runs.webhookLog(run_id), { webhook_due_at: 2_000, webhook_log })
    await done({ step: 'runs.remove', run_id, where: {} })
    t.equal(await store.runs.webhookLog(run_id), null)
  })
}
