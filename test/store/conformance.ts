/**
 * What every store must do: the promises of store/port.ts and nothing more. An adapter without transactions passes
 * too: after a failed step, only that step and the later ones are known not to be done.
 */
import fc from 'fast-check'
import t from 'tap'
import type { Store } from '../../store/port.js'
import type { AssistantRow } from '../../store/rows/assistants.js'
import type { RunRow } from '../../store/rows/runs.js'
import type { Step, Truncated } from '../../store/steps.js'
import { assistantConformance } from './conformance-assistants.js'
import { itemConformance } from './conformance-items.js'
import { readyRunsConformance } from './conformance-ready.js'
import { recordConformance } from './conformance-records.js'
import { APP, assistant, blob, bytes, checkpoint, run, save, thread, write } from './conformance-rows.js'
import { runSearchConformance } from './conformance-run-search.js'
import { threadConformance } from './conformance-threads.js'

type SaveStep = Extract<Step, { step: 'checkpoints.insert' }>

export interface Opened {
  store: Store
  /** Closes the store and opens it again over the same data. */
  reopen(): Promise<Store>
  /** Closes whatever is open and removes the data. */
  remove(): Promise<void>
}

/**
 * `samples`: so many hostile values make the round trip; `many`: so many threads meet one condition. Fewer where each
 * of them reaches a server ten times.
 */
export function conformance(
  name: string,
  open: () => Promise<Opened>,
  { samples: count = 5_000, many = 2_500 } = {},
): void {
  t.test(`${name}: the promises of a store`, { timeout: 300_000 }, async t => {
    const opened = await open()
    t.teardown(() => opened.remove())
    const { store } = opened

    const done = async (...steps: Step[]) => {
      const failed = await store.apply(steps)
      if (failed !== -1) throw new Error(`step ${failed} (${steps[failed]?.step}) failed`)
    }
    const newThread = async (set: Parameters<typeof thread>[0] = {}) => {
      const row = thread(set)
      await done({ step: 'threads.insert', row })
      return row
    }
    const newRun = async (thread_id: string, set: Partial<RunRow> = {}) => {
      const row = run(thread_id, set)
      await done({ step: 'runs.insert', row })
      return row
    }
    const patchRev = (thread_id: string, rev: number, set = {}): Step => ({
      step: 'threads.patch',
      thread_id,
      where: { rev },
      set,
    })
    const texts = (tuples: { id: string }[]) => tuples.map(({ id }) => id)

    t.test('ping and an empty list of steps', async t => {
      await store.ping()
      t.ok((await store.bytes()) > 0, 'it uses disk space')
      t.ok((await store.reusable()) >= 0)
      t.equal(await store.apply([]), -1)
    })

    t.test('an assistant comes back as it was; its id is taken within its application only', async t => {
      const row = assistant({ description: 'one\u0000two', name: '"quoted"', metadata: '{"a":1}', context: '[]' })
      await done({ step: 'assistants.insert', row })
      t.same(await store.assistants.get(APP, row.assistant_id), row)
      t.equal(await store.apply([{ step: 'assistants.insert', row: { ...row, name: 'other' } }]), 0)
      t.equal((await store.assistants.get(APP, row.assistant_id))?.name, '"quoted"')
      t.equal(await store.assistants.get('other', row.assistant_id), null)
      await done({ step: 'assistants.insert', row: { ...row, app: 'other', description: null } })
      t.equal((await store.assistants.get('other', row.assistant_id))?.description, null)
    })

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
          if (
            (await store.apply([patchRev(thread_id, row.rev, { queue, next_position: row.next_position + 1 })])) === -1
          )
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
      const counts = (await store.runs.summary([mine.run_id, lost.run_id, free.run_id])).map(
        ({ run_id, heartbeats }) => [run_id, heartbeats],
      )
      t.same(Object.fromEntries(counts), { [mine.run_id]: 5, [lost.run_id]: 0, [free.run_id]: 0 })
    })

    t.test('the index of the failed step is returned; it and the later ones are not done', async t => {
      const { thread_id } = await newThread()
      const later = thread()
      const steps: Step[] = [
        save(thread_id, { checkpoints: [checkpoint('c', 1)] }),
        { step: 'runs.beat', runs: [] },
        patchRev(thread_id, 99, { latest_checkpoint_id: 'bad' }),
        { step: 'threads.insert', row: later },
      ]
      t.equal(await store.apply(steps), 2)
      t.match(await store.threads.get(APP, thread_id), { latest_checkpoint_id: null, rev: 0 })
      t.equal(await store.threads.get(APP, later.thread_id), null)
    })

    t.test('failing lists do not disturb those of the same moment', async t => {
      const rows = Array.from({ length: 60 }, () => thread())
      const outcomes = await Promise.all(
        rows.map((row, i) =>
          store.apply([
            { step: 'threads.insert', row },
            patchRev(row.thread_id, i % 3 === 0 ? 1 : 0, { latest_checkpoint_id: 'h' }),
          ]),
        ),
      )
      t.same(
        outcomes,
        rows.map((_, i) => (i % 3 === 0 ? 1 : -1)),
      )
      for (const [i, row] of rows.entries())
        if (i % 3 !== 0) t.match(await store.threads.get(APP, row.thread_id), { rev: 1, latest_checkpoint_id: 'h' })
    })

    t.test('what apply has resolved is read at once', async t => {
      await Promise.all(
        Array.from({ length: 200 }, async (_, i) => {
          const { thread_id } = await newThread()
          await done(patchRev(thread_id, 0, { latest_checkpoint_id: `h${i}` }))
          t.equal((await store.threads.get(APP, thread_id))?.latest_checkpoint_id, `h${i}`)
        }),
      )
    })

    t.test('a checkpoint comes back with its blobs and writes', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c1' })
      const refs = JSON.parse('{"messages":"1.a","__proto__":"1.b","a.b":"1.c","$where":"1.d","":"1.e","gone":"1.f"}')
      const nul = 'n\u0000ul'
      refs[nul] = '1.g'
      const row = checkpoint('c1', 1, { parent: 'c0', refs, type: 'msgpack', meta_type: 'json' })
      const known = Object.keys(refs).filter(channel => channel !== 'gone')
      const oddWrite = { ...write('c1', nul, 0, 'odd'), channel: '"\ud800' }
      await done(
        save(thread_id, {
          checkpoints: [row],
          blobs: [
            ...known.map(channel => blob(channel, refs[channel], bytes(`blob of ${channel}`))),
            blob('messages', '2.x', bytes('newer')),
          ],
          writes: [
            write('c1', 't2', 0, 'd'),
            write('c1', 't1', 1, 'c'),
            write('c1', 't1', 0, 'b'),
            write('c1', 't1', -1, 'a'),
            write('other', 't1', 0, 'z'),
            oddWrite,
          ],
        }),
      )
      const tuple = (await store.checkpoints.get({ thread_id, ns: '', checkpoint_id: 'c1' }))!
      t.match(tuple, { ns: '', id: 'c1', parent: 'c0', type: 'msgpack', meta_type: 'json' })
      t.same(Buffer.from(tuple.value), Buffer.from('value of c1'))
      t.same(Buffer.from(tuple.metadata), Buffer.from('metadata of c1'))
      t.same(
        new Map(tuple.blobs.map(({ channel, value }) => [channel, Buffer.from(value).toString()])),
        new Map(known.map(channel => [channel, `blob of ${channel}`])),
      )
      const plain = tuple.writes.filter(({ task_id }) => task_id !== nul)
      t.same(
        plain.map(({ task_id, idx, value }) => [task_id, idx, Buffer.from(value).toString()]),
        [
          ['t1', -1, 'a'],
          ['t1', 0, 'b'],
          ['t1', 1, 'c'],
          ['t2', 0, 'd'],
        ],
      )
      t.equal(tuple.writes.find(({ task_id }) => task_id === nul)?.channel, '"\ud800')
      t.same(await store.checkpoints.get({ thread_id }), tuple, 'the head, without a namespace')
    })

    t.test('the path of a write comes back, alone and in a page of rows', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c1' })
      const paths = ['~a, 1', '~\ud800', '']
      const writes = [
        ...paths.map((path, n) => ({ ...write('c1', `t${n}`, n === 0 ? -1 : n, 'x'), path })),
        write('c1', 't9', 0, 'without'),
      ]
      await done(save(thread_id, { checkpoints: [checkpoint('c1', 1)], writes }))
      const pathsOf = (rows: readonly { path?: string }[]) => rows.map(row => row.path)
      t.same(pathsOf((await store.checkpoints.get({ thread_id }))!.writes), [...paths, undefined])
      const page = await store.checkpoints.writes({ thread_id, after: null, limit: 10, bytes: 1_000 })
      t.same(pathsOf(page), [...paths, undefined])
      await done({ ...save(thread_id, {}), writes: page } as Step)
      t.same(pathsOf((await store.checkpoints.get({ thread_id }))!.writes), [...paths, undefined], 'also when copied')
    })

    t.test('without an id, get follows the head and nothing else', async t => {
      const { thread_id } = await newThread()
      await done(save(thread_id, { checkpoints: [1, 2, 3].map(n => checkpoint(`c${n}`, n)) }))
      t.equal(await store.checkpoints.get({ thread_id }), null, 'no head yet')
      for (const head of ['c3', 'c1', 'c2']) {
        await done({ step: 'threads.patch', thread_id, where: {}, set: { latest_checkpoint_id: head } })
        t.equal((await store.checkpoints.get({ thread_id }))?.id, head)
        t.equal((await store.checkpoints.get({ thread_id, ns: '' }))?.id, head)
      }
      t.equal((await store.checkpoints.get({ thread_id, checkpoint_id: 'c3' }))?.id, 'c3')
      t.equal(await store.checkpoints.get({ thread_id, checkpoint_id: 'c9' }), null)
      t.equal(await store.checkpoints.get({ thread_id: 'absent' }), null)
    })

    t.test('without an id, get of a subgraph namespace is its greatest seq', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'r1' })
      const ns = 'child:1|"x"'
      const big = 2 ** 24 * 1000
      await done(
        save(thread_id, {
          checkpoints: [
            checkpoint('r1', big + 9),
            checkpoint('z', big + 1, { ns }),
            checkpoint('a', big + 2, { ns }),
            checkpoint('b', big + 3, { ns: 'child:2' }),
          ],
        }),
      )
      t.match(await store.checkpoints.get({ thread_id, ns }), { id: 'a', ns })
      t.match(await store.checkpoints.get({ thread_id, ns, checkpoint_id: 'z' }), { id: 'z', ns })
      t.equal(await store.checkpoints.get({ thread_id, ns: 'child' }), null)
    })

    t.test('list pages from the newest', async t => {
      const { thread_id } = await newThread()
      // Ids against the order of seq: only seq counts.
      const roots = Array.from({ length: 10 }, (_, i) => checkpoint(`c${9 - i}`, i * 2))
      const children = Array.from({ length: 3 }, (_, i) => checkpoint(`x${i}`, i * 2 + 1, { ns: 'child' }))
      await done(save(thread_id, { checkpoints: [...children, ...roots] }))
      const ids = async (query: object) => texts(await store.checkpoints.list({ thread_id, ...query }))
      t.same(await ids({ ns: '' }), ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9'])
      t.same(await ids({ ns: '', limit: 3 }), ['c0', 'c1', 'c2'])
      t.same(await ids({ ns: '', limit: 3, before: 'c2' }), ['c3', 'c4', 'c5'])
      t.same(await ids({ ns: '', before: 'c8' }), ['c9'])
      t.same(await ids({ ns: '', before: 'c9' }), [])
      t.same(await ids({ ns: 'child' }), ['x2', 'x1', 'x0'])
      t.same(await ids({ limit: 7, before: 'c4' }), ['c5', 'c6', 'x2', 'c7', 'x1', 'c8', 'x0'])
      t.same(await ids({ checkpoint_id: 'x1' }), ['x1'])
      t.same(await store.checkpoints.list({ thread_id: 'absent' }), [])
    })

    t.test('a save of a stale attempt does not move the head', async t => {
      const { thread_id } = await newThread({ active: { run_id: 'r', attempt: 1, token: 'one' } })
      const saving = (token: string, attempt: number, id: string): Step[] => [
        { ...save(thread_id, { checkpoints: [checkpoint(id, attempt)] }), attempt } as Step,
        { step: 'threads.patch', thread_id, where: { token }, set: { latest_checkpoint_id: id } },
      ]
      await done(...saving('one', 1, 'a'))
      const active = { run_id: 'r', attempt: 2, token: 'two' }
      await done({ step: 'threads.patch', thread_id, where: {}, set: { active } })
      t.equal(await store.apply(saving('one', 1, 'late')), 1)
      t.equal((await store.checkpoints.get({ thread_id }))?.id, 'a')
      await done(...saving('two', 2, 'b'))
      t.equal((await store.checkpoints.get({ thread_id }))?.id, 'b')
    })

    t.test('blobs are never replaced, checkpoints are', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c' })
      const refs = { m: '1' }
      await done(
        save(thread_id, { checkpoints: [checkpoint('c', 1, { refs })], blobs: [blob('m', '1', bytes('first'))] }),
      )
      const again = checkpoint('c', 1, { refs, value: bytes('replaced') })
      await done(save(thread_id, { checkpoints: [again], blobs: [blob('m', '1', bytes('second'))] }))
      const tuple = await store.checkpoints.get({ thread_id })
      t.same(Buffer.from(tuple!.value), Buffer.from('replaced'))
      t.same(Buffer.from(tuple!.blobs[0]!.value), Buffer.from('first'))
      t.equal((await store.checkpoints.list({ thread_id })).length, 1)
    })

    t.test('the first write to an ordinary channel stays, the last to a special one', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c' })
      const both = (text: string) => [write('c', 't', 0, text), write('c', 't', -3, text)]
      await done(save(thread_id, { checkpoints: [checkpoint('c', 1)], writes: both('first') }))
      await done(save(thread_id, { writes: both('second') }))
      const tuple = await store.checkpoints.get({ thread_id })
      t.same(
        tuple!.writes.map(({ idx, value }) => [idx, Buffer.from(value).toString()]),
        [
          [-3, 'second'],
          [0, 'first'],
        ],
      )
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

    t.test('checkpoints without those of a run', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c3' })
      const insert = (run_id: string | null, id: string): Step => ({
        ...(save(thread_id, { checkpoints: [checkpoint(id, Number(id.slice(1)))] }) as SaveStep),
        run_id,
      })
      await done(insert(null, 'c1'), insert('one', 'c2'), insert('two', 'c3'))
      const newest = async (without_run?: string) =>
        (await store.checkpoints.get({ thread_id, ...(without_run === undefined ? {} : { without_run }) }))?.id
      t.same([await newest(), await newest('two'), await newest('one')], ['c3', 'c2', 'c3'])
      t.equal(await store.checkpoints.get({ thread_id, checkpoint_id: 'c3', without_run: 'two' }), null)
      t.equal((await store.checkpoints.get({ thread_id, checkpoint_id: 'c3', without_run: 'one' }))?.id, 'c3')
      t.same(texts(await store.checkpoints.list({ thread_id, without_run: 'one' })), ['c3', 'c1'])
      t.same(texts(await store.checkpoints.list({ thread_id, without_run: 'two', limit: 1 })), ['c2'])
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

    t.test('a rollback removes what the run saved and nothing else', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'kept' })
      const neighbour = await newThread({ latest_checkpoint_id: 'c' })
      const saved = (run_id: string | null, id: string, seq: number, on = thread_id): Step =>
        ({
          ...save(on, { checkpoints: [checkpoint(id, seq, { refs: { m: '1' } })], writes: [write('kept', id, 0, id)] }),
          run_id,
        }) as Step
      await done(save(thread_id, { blobs: [blob('m', '1', bytes('shared'))] }))
      await done(saved('a', 'kept', 1), saved('b', 'gone', 2), saved(null, 'update', 3))
      await done(saved('b', 'c', 1, neighbour.thread_id))
      const rollback: Step = { step: 'checkpoints.rollback', thread_id, run_id: 'b' }
      await done(rollback)
      await done(rollback, { ...rollback, run_id: 'absent' })
      t.same(texts(await store.checkpoints.list({ thread_id })), ['update', 'kept'])
      const tuple = await store.checkpoints.get({ thread_id })
      t.same(
        tuple?.writes.map(({ task_id }) => task_id),
        ['kept', 'update'],
      )
      t.equal(tuple?.blobs.length, 1, 'blobs stay')
      t.equal((await store.checkpoints.get({ thread_id: neighbour.thread_id }))?.id, 'c')
    })

    t.test('a trim removes what an attempt saved after the latest checkpoint of the thread', async t => {
      const { thread_id } = await newThread({ latest_checkpoint_id: 'latest' })
      const other = await newThread({ latest_checkpoint_id: null })
      const saved = (id: string, seq: number, { on = thread_id, run_id = 'r', attempt = 1, ns = '' } = {}): Step =>
        ({
          ...save(on, {
            checkpoints: [checkpoint(id, seq, { ns })],
            writes: [write(id, 'task', 0, id, ns)],
          }),
          run_id,
          attempt,
        }) as Step
      await done(saved('before', 1), saved('latest', 2), saved('after', 3), saved('again', 4))
      await done(
        saved('sub', 5, { ns: 'node' }),
        saved('next', 6, { attempt: 2 }),
        saved('foreign', 7, { run_id: 'q' }),
      )
      await done(saved('only', 1, { on: other.thread_id }))
      const trim: Step = { step: 'checkpoints.trim', thread_id, run_id: 'r', attempt: 1 }
      await done(trim)
      await done(trim, { ...trim, thread_id: 'absent' })
      const ids = (await store.checkpoints.list({ thread_id })).map(({ id }) => id)
      t.same(ids, ['foreign', 'next', 'sub', 'latest', 'before'])
      await done({ ...trim, thread_id: other.thread_id })
      t.same(await store.checkpoints.list({ thread_id: other.thread_id }), [], 'the thread names none')
      await done(save(thread_id, { checkpoints: [checkpoint('after', 8)] }))
      const [found] = await store.checkpoints.list({ thread_id, limit: 1 })
      t.match(found, { id: 'after', writes: [] }, 'its writes were removed, too')
    })

    t.test('truncate empties one thing and leaves the others in step', async t => {
      const other = await open()
      t.teardown(() => other.remove())
      const { store } = other
      const steps = async (...steps: Step[]) => t.equal(await store.apply(steps), -1)
      const truncate = (what: Truncated, keep: Pick<AssistantRow, 'app' | 'assistant_id'>[] = []) =>
        steps({ step: 'truncate', what, keep })
      const active = { run_id: 'r', attempt: 1, token: 'tok' }
      const row = thread({
        status: 'busy',
        settled: 'interrupted',
        active,
        queue: [{ run_id: 'q', position: 0, due_at: 0 }],
      })
      const { thread_id } = row
      const one = run(thread_id)
      const [kept, gone] = [assistant(), assistant({ app: 'other' })]
      await steps(
        { step: 'assistants.insert', row: kept },
        { step: 'assistants.insert', row: gone },
        { step: 'threads.insert', row: { ...row, latest_checkpoint_id: 'c', interrupts: '{"t":[]}' }, keys: ['k'] },
        { step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values: bytes('{}'), rest: null },
        { step: 'runs.insert', row: one },
        save(thread_id, { checkpoints: [checkpoint('c', 1)], writes: [write('c', 't', 0, 'w')] }),
      )
      await truncate('assistants', [kept])
      t.ok(await store.assistants.get(kept.app, kept.assistant_id))
      t.equal(await store.assistants.get(gone.app, gone.assistant_id), null)
      await truncate('runs')
      t.equal(await store.runs.get(one.run_id), null)
      t.match(await store.threads.get(APP, thread_id), {
        active: null,
        queue: [],
        status: 'interrupted',
        latest_checkpoint_id: 'c',
      })
      t.ok(await store.checkpoints.get({ thread_id }))
      await truncate('checkpoints')
      t.same(await store.checkpoints.list({ thread_id }), [])
      t.same((await store.threads.state(thread_id))?.values ?? null, null)
      t.match(await store.threads.get(APP, thread_id), { status: 'idle', latest_checkpoint_id: null, interrupts: '{}' })
      await truncate('threads')
      t.equal(await store.threads.get(APP, thread_id), null)
      await steps({ step: 'threads.insert', row })
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

    assistantConformance(t, store)
    itemConformance(t, store)
    recordConformance(t, store)
    threadConformance(t, store, many)
    runSearchConformance(t, store, many)
    readyRunsConformance(t, store)

    t.test(`${count} hostile JSON values come back byte for byte`, async t => {
      const seed = 20_261_121
      t.comment(`fast-check seed ${seed}`)
      const key = fc.oneof(
        fc.constantFrom(
          '__proto__',
          'constructor',
          'toString',
          '$where',
          '$set',
          'a.b',
          '.',
          '',
          '\u0000',
          '\ud800',
          '"',
        ),
        fc.string({ unit: 'binary', maxLength: 6 }),
      )
      const value = fc.letrec(tie => ({
        any: fc.oneof(
          { depthSize: 'small', withCrossShrink: true },
          fc.constantFrom('\u0000', '\udfff\ud800', '$ne', '', 2 ** 53, -0, 1e-300, null, true),
          fc.string({ unit: 'binary', maxLength: 12 }),
          fc.double({ noNaN: true, noDefaultInfinity: true }),
          fc.array(tie('any'), { maxLength: 4 }),
          fc.array(fc.tuple(key, tie('any')), { maxLength: 4 }).map(Object.fromEntries),
        ),
      })).any
      const samples = fc.sample(value, { seed, numRuns: count - 10 }).map(sample => JSON.stringify(sample))
      const deep = Array.from({ length: 10 }, (_, i) => '{"a.b":['.repeat(100 * i) + ']}'.repeat(100 * i) || 'null')
      const all = [...samples, ...deep]
      t.equal(all.length, count)

      let wrong = 0
      const check = async (text: string) => {
        const { thread_id } = await newThread({ metadata: text, config: text, interrupts: text, error: text })
        const { run_id } = await newRun(thread_id, { metadata: text, kwargs: text, error: text, result: bytes(text) })
        await done({
          step: 'threads.state',
          thread_id,
          latest_checkpoint_id: null,
          values: bytes(text),
          rest: bytes(text),
        })
        const [row, state, made] = await Promise.all([
          store.threads.get(APP, thread_id),
          store.threads.state(thread_id),
          store.runs.get(run_id),
        ])
        const stored = [
          row?.metadata,
          row?.config,
          row?.interrupts,
          row?.error,
          made?.metadata,
          made?.kwargs,
          made?.error,
        ]
        const raw = [state?.values, state?.rest, made?.result].map(value => value && Buffer.from(value).toString())
        if ([...stored, ...raw].some(found => found !== text) && ++wrong < 4)
          t.fail('another text', { text, stored, raw })
        await done({ step: 'threads.remove', thread_id })
      }
      for (let at = 0; at < all.length; at += 250) await Promise.all(all.slice(at, at + 250).map(check))
      t.equal(wrong, 0)
    })

    t.test('values of 17 MB', async t => {
      const size = 17 * 2 ** 20
      const large = Buffer.alloc(size, 'weft')
      // A view in the middle of a larger buffer: what a caller cuts out of a message.
      const part = Buffer.concat([Buffer.from('head'), large, Buffer.from('tail')]).subarray(4, 4 + size)
      const { thread_id } = await newThread({ latest_checkpoint_id: 'c' })
      const kwargs = JSON.stringify({ input: 'é'.repeat(size / 2) })
      const { run_id } = await newRun(thread_id, { kwargs, result: part })
      await done({ step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values: part, rest: null })
      const row = checkpoint('c', 1, { value: part, refs: { m: '1' } })
      await done(save(thread_id, { checkpoints: [row], blobs: [blob('m', '1', part)] }))
      t.equal(part.length, size, 'the caller keeps its bytes')
      const made = await store.runs.get(run_id)
      t.ok(made?.kwargs === kwargs)
      t.ok(large.equals(made!.result!))
      t.ok(large.equals((await store.threads.state(thread_id))!.values!))
      const tuple = await store.checkpoints.get({ thread_id })
      t.ok(large.equals(tuple!.value))
      t.ok(large.equals(tuple!.blobs[0]!.value))
      await done({ step: 'threads.remove', thread_id })
    })

    t.test('everything is there after a reopen, and a closed store takes nothing', async t => {
      const row = await newThread({ metadata: '{"kept":true}', latest_checkpoint_id: 'c' })
      const made = await newRun(row.thread_id, { kwargs: '{"input":"kept"}' })
      await done(save(row.thread_id, { checkpoints: [checkpoint('c', 1)], writes: [write('c', 't', 0, 'kept')] }))
      const pending = store.apply([{ step: 'threads.insert', row: thread() }])
      const again = await opened.reopen()
      t.equal(await pending, -1, 'what was accepted before the close is done')
      t.same(await again.threads.get(APP, row.thread_id), row)
      t.same(await again.runs.get(made.run_id), made)
      t.equal((await again.checkpoints.get({ thread_id: row.thread_id }))?.writes.length, 1)

      await t.rejects(store.apply([{ step: 'threads.insert', row: thread() }]), { code: 'unavailable' })
      await t.rejects(store.apply([]), { code: 'unavailable' })
      await t.rejects(store.threads.get(APP, row.thread_id), { code: 'unavailable' })
      await t.rejects(store.checkpoints.list({ thread_id: row.thread_id }), { code: 'unavailable' })
      await t.rejects(store.ping(), { code: 'unavailable' })
      await store.close()
      await again.ping()
    })
  })
}
