/** The promises of every store about rows of threads: conditions of a write, removal, and lists that workers walk (store/port.ts). */
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { RunRow } from '../../store/rows/runs.js'
import type { Step } from '../../store/steps.js'
import { APP, blob, bytes, checkpoint, save, write } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

export function threadRowConformance(t: Test, store: Store): void {
  const { done, newThread, newRun, patchRev } = writer(store)

  t.test('a thread comes back as it was; its id is taken in every application', async t => {
    const row = await newThread({
      temporary: true,
      error: '{"message":"x"}',
      active: { run_id: 'r', attempt: 2, token: 'tok' },
      queue: [{ run_id: 'q', position: 3, due_at: 1_700_000_000_009 }],
      next_position: 4,
      claim_no: 2 ** 26,
      latest_checkpoint_id: 'h',
      rev: 7,
    })
    t.same(await store.threads.get(APP, row.thread_id), row)
    t.equal(await store.threads.get('other', row.thread_id), null)
    t.same(await store.threads.get(null, row.thread_id), row)
    t.equal(await store.threads.get(null, 'absent'), null)
    t.equal(await store.apply([{ step: 'threads.insert', row: { ...row, app: 'other' } }]), 0)
    t.same(await store.threads.get(APP, row.thread_id), row)
    t.equal(await store.threads.get(APP, 'absent'), null)
  })

  t.test('a patch of a thread sets what it names and grows rev only where rev is asked', async t => {
    const row = await newThread()
    const { thread_id } = row
    const set = {
      status: 'busy' as const,
      active: { run_id: 'r', attempt: 1, token: 'tok' },
      queue: [{ run_id: 'r2', position: 1, due_at: 5 }],
      metadata: '{"x":[1]}',
      temporary: true,
      latest_checkpoint_id: 'c1',
      error: '"e"',
      left_by: { graph_id: 'agent', assistant_id: 'a' },
      next_position: 2,
    }
    await done(patchRev(thread_id, 0, set))
    t.same(await store.threads.get(APP, thread_id), { ...row, ...set, rev: 1 })
    t.equal(await store.apply([patchRev(thread_id, 0)]), 0, 'an old rev')
    t.equal(await store.apply([patchRev('absent', 0)]), 0, 'no such thread')

    const byToken = (token: string, set = {}): Step => ({ step: 'threads.patch', thread_id, where: { token }, set })
    t.equal(await store.apply([byToken('stale', { latest_checkpoint_id: 'bad' })]), 0, 'another token')
    await done(byToken('tok', { latest_checkpoint_id: 'c2' }))
    t.match(await store.threads.get(APP, thread_id), { latest_checkpoint_id: 'c2', rev: 1 })

    await done({
      step: 'threads.patch',
      thread_id,
      where: { rev: 1, token: 'tok' },
      set: { active: null, error: null },
    })
    t.match(await store.threads.get(APP, thread_id), { active: null, error: null, rev: 2 })
    t.equal(await store.apply([byToken('tok')]), 0, 'it is not held any more')
    await done({ step: 'threads.patch', thread_id, where: {}, set: {} })
    t.equal((await store.threads.get(APP, thread_id))?.rev, 2)
  })

  t.test('of 50 callers with one rev exactly one wins, rev after rev', async t => {
    const { thread_id } = await newThread()
    for (let rev = 0; rev < 5; rev++) {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) =>
          store.apply([patchRev(thread_id, rev, { latest_checkpoint_id: `${rev}-${i}` })]),
        ),
      )
      const winners = outcomes.flatMap((failed, i) => (failed === -1 ? [i] : []))
      t.equal(winners.length, 1)
      t.match(await store.threads.get(APP, thread_id), { rev: rev + 1, latest_checkpoint_id: `${rev}-${winners[0]}` })
    }
  })

  t.test('of 50 callers that take over one token exactly one wins', async t => {
    const { thread_id } = await newThread({ active: { run_id: 'r', attempt: 1, token: 'first' } })
    const take = (i: number): Step => ({
      step: 'threads.patch',
      thread_id,
      where: { token: 'first' },
      set: { active: { run_id: 'r', attempt: 2, token: `taker-${i}` } },
    })
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => store.apply([take(i)])))
    const winners = outcomes.flatMap((failed, i) => (failed === -1 ? [i] : []))
    t.equal(winners.length, 1)
    t.equal((await store.threads.get(APP, thread_id))?.active?.token, `taker-${winners[0]}`)
  })

  t.test('50 callers that read, change and try again lose no change', async t => {
    const { thread_id } = await newThread()
    const append = async (i: number): Promise<void> => {
      for (;;) {
        const row = (await store.threads.get(APP, thread_id))!
        const queue = [...row.queue, { run_id: `r${i}`, position: row.next_position, due_at: 0 }]
        if ((await store.apply([patchRev(thread_id, row.rev, { queue, next_position: row.next_position + 1 })])) === -1)
          return
      }
    }
    await Promise.all(Array.from({ length: 50 }, (_, i) => append(i)))
    const row = (await store.threads.get(APP, thread_id))!
    t.equal(row.rev, 50)
    t.same(
      row.queue.map(({ position }) => position),
      Array.from({ length: 50 }, (_, i) => i),
    )
    t.equal(new Set(row.queue.map(({ run_id }) => run_id)).size, 50)
  })

  t.test('the finished state of a thread is replaced as a whole', async t => {
    const { thread_id } = await newThread()
    t.same((await store.threads.state(thread_id))?.values ?? null, null)
    await done({
      step: 'threads.state',
      thread_id,
      latest_checkpoint_id: 'h1',
      values: bytes('{"a":1}'),
      rest: bytes('"next":[]}'),
    })
    const first = await store.threads.state(thread_id)
    t.equal(first?.latest_checkpoint_id, 'h1')
    t.same(Buffer.from(first!.values!), Buffer.from('{"a":1}'))
    t.same(Buffer.from(first!.rest!), Buffer.from('"next":[]}'))
    await done({
      step: 'threads.state',
      thread_id,
      latest_checkpoint_id: 'h2',
      values: new Uint8Array(0),
      rest: null,
    })
    const second = await store.threads.state(thread_id)
    t.match(second, { latest_checkpoint_id: 'h2', rest: null })
    t.equal(second?.values?.length, 0)
    t.equal(await store.threads.state('absent'), null)
  })

  t.test('a removed thread leaves nothing, and its neighbour everything', async t => {
    const fill = async () => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c' })
      const { run_id } = await newRun(thread_id)
      await done({ step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values: bytes('{}'), rest: null })
      const rows = { checkpoints: [checkpoint('c', 1, { refs: { m: '1' } }), checkpoint('s', 2, { ns: 'sub' })] }
      await done(
        save(thread_id, { ...rows, blobs: [blob('m', '1', bytes('old'))], writes: [write('c', 't', 0, 'old')] }),
      )
      return { thread_id, run_id }
    }
    const [gone, kept] = [await fill(), await fill()]
    await done({ step: 'threads.remove', thread_id: gone.thread_id })
    await done({ step: 'threads.remove', thread_id: gone.thread_id })
    const { thread_id } = gone
    t.equal(await store.threads.get(APP, thread_id), null)
    t.equal(await store.threads.state(thread_id), null)
    t.equal(await store.runs.get(gone.run_id), null)
    t.same(await store.checkpoints.list({ thread_id }), [])

    await newThread({ thread_id, latest_checkpoint_id: 'c' })
    await done(save(thread_id, { checkpoints: [checkpoint('c', 1, { refs: { m: '1' } })] }))
    t.match(await store.checkpoints.get({ thread_id }), { blobs: [], writes: [] }, 'nothing old comes back')

    t.ok(await store.threads.state(kept.thread_id))
    t.ok(await store.runs.get(kept.run_id))
    const tuple = await store.checkpoints.get({ thread_id: kept.thread_id })
    t.equal(tuple?.blobs.length, 1)
    t.equal(tuple?.writes.length, 1)
  })

  t.test('busy threads come longest untouched first', async t => {
    const made: string[] = []
    for (const [updated_at, status] of [
      [300, 'busy'],
      [100, 'busy'],
      [200, 'idle'],
      [1_000, 'busy'],
      [200, 'busy'],
    ] as const)
      made.push((await newThread({ status, updated_at })).thread_id)
    const busy = async (limit: number) => (await store.threads.busy(1_000, limit)).map(({ thread_id }) => thread_id)
    t.same(await busy(100), [made[1], made[4], made[0]])
    t.same(await busy(2), [made[1], made[4]])
    const [first] = await store.threads.busy(1_000, 1)
    t.same(first, await store.threads.get(APP, made[1]!))
    t.same(
      (await store.threads.busy(1_000, 10, first)).map(({ thread_id }) => thread_id),
      [made[4], made[0]],
    )
    for (const thread_id of made) await done({ step: 'threads.remove', thread_id })
  })

  t.test('expired are the threads of temporary runs that ended before', async t => {
    const made = async (set: Partial<RunRow>) => {
      const { thread_id } = await newThread({ temporary: true })
      await newRun(thread_id, { temporary: true, ...set })
      return thread_id
    }
    const old = await made({ ended_at: 1_000 })
    const older = await made({ ended_at: 500 })
    await made({ ended_at: 2_000 })
    await made({})
    await made({ temporary: false, ended_at: 1_000 })
    await made({ ended_at: 1_000, webhook: 'https://example.com/', webhook_due_at: 5_000 })
    await newRun(old, { temporary: true, ended_at: 900 })
    t.same((await store.runs.expired(2_000, 2_000, 100)).sort(), [old, older].sort(), 'each thread once')
    t.same(await store.runs.expired(2_000, 0, 100), [], 'a stored stream keeps its run')
    t.equal((await store.runs.expired(2_000, 2_000, 1)).length, 1)
  })
}
