/** The promises of every store about checkpoints, their blobs and writes, and what removes them (store/port.ts). */
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { Step } from '../../store/steps.js'
import { blob, bytes, checkpoint, save, write } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

type SaveStep = Extract<Step, { step: 'checkpoints.insert' }>

export function checkpointConformance(t: Test, store: Store): void {
  const { done, newThread, texts } = writer(store)

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
    await done(saved('sub', 5, { ns: 'node' }), saved('next', 6, { attempt: 2 }), saved('foreign', 7, { run_id: 'q' }))
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
}
