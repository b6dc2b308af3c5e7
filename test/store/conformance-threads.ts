/** The promises of every store about lists of threads, their expiry, and walks through what they have stored. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { ThreadQuery, ThreadRow } from '../../store/rows/threads.js'
import type { Step } from '../../store/steps.js'
import { blob, bytes, checkpoint, save, thread, write } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

export function threadConformance(t: Test, store: Store, many: number): void {
  const { done } = writer(store)
  /** Each test has its own application, so that none sees the threads of another. */
  const maker = () => {
    const app = randomUUID()
    const insert = async (set: Partial<ThreadRow> = {}, keys?: string[]) => {
      const row = thread({ app, ...set })
      await done({ step: 'threads.insert', row, ...(keys === undefined ? {} : { keys }) })
      return row
    }
    /** All pages, one after the other. */
    const ids = async (query: Omit<ThreadQuery, 'app'>) => {
      const found: string[] = []
      for (let after = query.after; ; ) {
        const { rows, next } = await store.threads.list({ app, ...query, ...(after === undefined ? {} : { after }) })
        found.push(...rows.map(({ thread_id }) => thread_id))
        if (rows.length > query.limit) throw new Error('a page is too long')
        if (next === null) return found
        after = next
      }
    }
    return { app, insert, ids }
  }
  const SORTS = ['thread_id', 'status', 'created_at', 'updated_at', 'state_updated_at'] as const
  const STATUSES = ['idle', 'busy', 'interrupted', 'error'] as const

  t.test('threads are listed in every order, both ways, in pages of any size, hidden ones never', async t => {
    const { app, insert, ids } = maker()
    const rows: ThreadRow[] = []
    for (let i = 0; i < 40; i++) {
      const at = 1_000 + (i % 7)
      // A third were only made: their three times are equal.
      const touched = i % 3 === 0 ? {} : { updated_at: 1_000 + (i % 5), state_updated_at: 1_000 + (i % 4) }
      const times = { created_at: at, updated_at: at, state_updated_at: at, ...touched }
      rows.push(await insert({ status: STATUSES[i % 4], ...times }))
    }
    await insert({ temporary: true })
    await insert({ temporary: true, status: 'busy' })
    for (const sort of SORTS)
      for (const order of ['asc', 'desc'] as const) {
        const compare = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0)
        const expected = rows.toSorted((a, b) => compare(a[sort], b[sort]) || compare(a.thread_id, b.thread_id))
        const wanted = (order === 'asc' ? expected : expected.toReversed()).map(({ thread_id }) => thread_id)
        for (const limit of [1, 7, 40, 100])
          t.same(await ids({ sort, order, limit }), wanted, `${sort} ${order} ${limit}`)
        const skipped = await store.threads.list({ app, sort, order, skip: 13, limit: 5 })
        t.same(
          skipped.rows.map(({ thread_id }) => thread_id),
          wanted.slice(13, 18),
          `${sort} ${order}, some passed over`,
        )
        t.same((await store.threads.list({ app, sort, order, skip: 40, limit: 5 })).rows, [])
      }
    t.same((await store.threads.list({ app, sort: 'created_at', order: 'asc', limit: 100 })).rows.length, 40)
    t.same(
      (await store.threads.list({ app, sort: 'thread_id', order: 'asc', limit: 1 })).rows[0],
      rows.toSorted((a, b) => (a.thread_id < b.thread_id ? -1 : 1))[0],
      'whole rows',
    )
    t.equal(await store.threads.count(app), 40)
    for (const status of STATUSES) {
      t.equal(await store.threads.count(app, status), 10, `of status ${status}`)
      const wanted = rows.filter(row => row.status === status).map(({ thread_id }) => thread_id)
      t.same((await ids({ status, sort: 'updated_at', order: 'desc', limit: 3 })).sort(), wanted.sort())
    }
    t.equal(await store.threads.count(randomUUID()), 0)
  })

  t.test('a thread changes its place in a list with its times and its status', async t => {
    const { app, insert, ids } = maker()
    const [a, b] = [
      await insert({ created_at: 1, updated_at: 1, state_updated_at: 1 }),
      await insert({ updated_at: 2 }),
    ]
    const order = () => ids({ sort: 'updated_at', order: 'desc', limit: 10 })
    t.same(await order(), [b.thread_id, a.thread_id])
    await done({ step: 'threads.patch', thread_id: a.thread_id, where: {}, set: { updated_at: 3, status: 'busy' } })
    t.same(await order(), [a.thread_id, b.thread_id])
    t.same(await ids({ status: 'busy', sort: 'thread_id', order: 'asc', limit: 1 }), [a.thread_id])
    await done({ step: 'threads.patch', thread_id: a.thread_id, where: {}, set: { temporary: true } })
    t.same(await order(), [b.thread_id])
    t.equal(await store.threads.count(app), 1)
    await done({ step: 'threads.remove', thread_id: b.thread_id })
    t.same(await order(), [])
  })

  t.test('threads are narrowed by ids, status and all of their keys', async t => {
    const { insert, ids } = maker()
    const any = await insert({}, ['*'])
    const ab = await insert({ status: 'busy' }, ['a', 'b'])
    const b = await insert({}, ['b'])
    const none = await insert()
    const of = async (query: Partial<ThreadQuery>) =>
      (await ids({ sort: 'created_at', order: 'asc', limit: 2, ...query })).sort()
    const sorted = (...rows: ThreadRow[]) => rows.map(({ thread_id }) => thread_id).sort()
    t.same(await of({ keys: ['b'] }), sorted(any, ab, b))
    t.same(await of({ keys: ['a', 'b'] }), sorted(any, ab))
    t.same(await of({ keys: ['a', 'c'] }), sorted(any))
    t.same(await of({ keys: ['b'], status: 'idle' }), sorted(any, b))
    t.same(await of({ keys: ['b'], status: 'busy' }), sorted(ab))
    t.same(await of({ ids: [b.thread_id, none.thread_id, none.thread_id, randomUUID()] }), sorted(b, none))
    t.same(await of({ ids: [b.thread_id, none.thread_id], keys: ['b'] }), sorted(b))
    t.same(await of({ ids: [ab.thread_id], status: 'idle' }), [])
    const set = (row: ThreadRow, keys: string[]): Step => ({
      step: 'threads.patch',
      thread_id: row.thread_id,
      where: { rev: 0 },
      set: { metadata: '{"x":1}' },
      keys,
    })
    await done(set(none, ['a']), set(ab, []))
    t.same(await of({ keys: ['a'] }), sorted(any, none), 'keys are replaced')
    t.equal(await store.apply([set(none, ['b'])]), 0, 'an old rev changes no keys')
    t.same(await of({ keys: ['b'] }), sorted(any, b))
    await done({ step: 'threads.remove', thread_id: b.thread_id })
    t.same(await of({ keys: ['b'] }), sorted(any))
  })

  t.test('a condition that many threads meet is paged through as well', async t => {
    const { app, insert, ids } = maker()
    const rows = Array.from({ length: many }, (_, i) =>
      thread({ app, status: 'error', updated_at: i, created_at: i % 9 }),
    )
    for (let at = 0; at < rows.length; at += 500)
      await done(
        ...rows
          .slice(at, at + 500)
          .map((row, i): Step => ({ step: 'threads.insert', row, keys: i % 2 === 0 ? ['many', 'even'] : ['many'] })),
      )
    for (let i = 0; i < 5; i++) await insert({ updated_at: 10 })
    const wanted = rows.toReversed().map(({ thread_id }) => thread_id)
    const query = { sort: 'updated_at', order: 'desc', limit: 1_000 } as const
    t.same(await ids({ ...query, keys: ['many'] }), wanted)
    t.same(await ids({ ...query, status: 'error' }), wanted)
    t.same(
      await ids({ ...query, keys: ['many', 'even'], limit: 100 }),
      wanted.filter((_, i) => i % 2 === 1),
    )
    t.equal(await store.threads.count(app, 'error'), many)
    t.equal(await store.threads.count(app), many + 5)
    await done(...rows.map(({ thread_id }): Step => ({ step: 'threads.remove', thread_id })))
  })

  t.test('threads expire at their time, hidden ones too, earliest first', async t => {
    const { insert } = maker()
    const ttl = { minutes: 0.5, strategy: 'keep_latest' } as const
    const exact = await insert({ expires_at: 2_000, ttl })
    const early = await insert({ expires_at: 1_000, temporary: true })
    await insert({ expires_at: 2_001, ttl })
    await insert({ ttl: null })
    t.same(await store.threads.expired(2_000, 10), [early, exact])
    t.same(await store.threads.expired(2_000, 1), [early])
    await done({ step: 'threads.patch', thread_id: early.thread_id, where: {}, set: { expires_at: null } })
    await done({ step: 'threads.patch', thread_id: exact.thread_id, where: {}, set: { ttl: null, expires_at: 3_000 } })
    t.same(await store.threads.expired(2_000, 10), [])
    t.match(await store.threads.expired(3_000, 10), [
      { ttl, expires_at: 2_001 },
      { ttl: null, expires_at: 3_000 },
    ])
  })

  t.test('finished states come in the order asked, and stop at their size', async t => {
    const { insert } = maker()
    const [a, b, c] = [await insert(), await insert(), await insert()]
    for (const { thread_id } of [a, c])
      await done({
        step: 'threads.state',
        thread_id,
        latest_checkpoint_id: 'h',
        values: bytes('x'.repeat(100)),
        rest: null,
      })
    const of = async (most: number) =>
      (await store.threads.states([c.thread_id, b.thread_id, randomUUID(), a.thread_id], most)).map(
        state => state?.values?.length ?? null,
      )
    t.same(await of(1_000), [100, null, null, 100])
    t.same(await of(100), [100])
    t.same(await of(101), [100, null, null, 100])
    t.same(await store.threads.states([], 1), [])
  })

  t.test('a list of checkpoints ends once it holds enough', async t => {
    const { insert } = maker()
    const { thread_id } = await insert()
    for (let i = 1; i <= 5; i++)
      await done(
        save(thread_id, {
          checkpoints: [checkpoint(`c${i}`, i, { refs: { m: `${i}` }, value: bytes('v'), metadata: bytes('m') })],
          blobs: [blob('m', `${i}`, bytes('b'.repeat(97)))],
          writes: [write(`c${i}`, 't', 0, 'w')],
        }),
      )
    const of = async (bytes: number) => (await store.checkpoints.list({ thread_id, bytes })).map(({ id }) => id)
    t.same(await of(1), ['c5'])
    t.same(await of(100), ['c5'])
    t.same(await of(101), ['c5', 'c4'])
    t.same(await of(1_000), ['c5', 'c4', 'c3', 'c2', 'c1'])
    t.same((await store.checkpoints.list({ thread_id, bytes: 101, before: 'c4' })).length, 2)
  })

  t.test('everything stored is walked through in pages, and nothing of the neighbour', async t => {
    const { insert } = maker()
    const { thread_id } = await insert()
    const neighbour = await insert()
    const names = ['', 'sub', '"odd"', 'nul\u0000', '\ud800']
    const checkpoints = names.flatMap((ns, i) =>
      [1, 2].map(n => checkpoint(`c${n}`, i * 2 + n, { ns, parent: n === 2 ? 'c1' : null, refs: { m: `${n}` } })),
    )
    const blobs = names.flatMap(ns => names.map((channel, i) => blob(channel, `${i}`, bytes(`${ns}${i}`), ns)))
    const writes = names.flatMap(ns => names.map((task, i) => write('c1', task, i - 2, `${ns}${i}`, ns)))
    await done(save(thread_id, { checkpoints, blobs, writes }))
    await done(save(neighbour.thread_id, { checkpoints, blobs, writes }))
    /** All pages; `keyOf` is the cursor of the next page. */
    async function walk<Row>(page: (after: Row | null) => Promise<Row[]>): Promise<Row[]> {
      const found: Row[] = []
      for (;;) {
        const rows = await page(found.at(-1) ?? null)
        if (rows.length === 0) return found
        found.push(...rows)
      }
    }
    const same = (found: object[], wanted: object[], name: string) =>
      t.same(new Set(found.map(row => text(row))), new Set(wanted.map(row => text(row))), name)
    const text = (row: object) =>
      JSON.stringify(
        Object.entries(row)
          .map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value])
          .sort(),
      )
    for (const [limit, most] of [
      [1, 1_000_000],
      [4, 1_000_000],
      [1_000, 1],
      [1_000, 1_000_000],
    ] as const) {
      const query = { thread_id, limit, bytes: most }
      const rows = await walk<(typeof checkpoints)[number]>(after => store.checkpoints.rows({ ...query, after }))
      t.same(
        rows.map(({ seq }) => seq),
        checkpoints.map(({ seq }) => seq),
      )
      same(rows, checkpoints, `checkpoints by ${limit}, ${most} bytes`)
      same(await walk<(typeof blobs)[number]>(after => store.checkpoints.blobs({ ...query, after })), blobs, 'blobs')
      same(
        await walk<(typeof writes)[number]>(after => store.checkpoints.writes({ ...query, after })),
        writes,
        'writes',
      )
    }
    t.equal((await store.checkpoints.rows({ thread_id, after: null, limit: 100, bytes: 1 })).length, 1)
    const query = { thread_id, after: null, limit: 100, bytes: 1_000, bare: true }
    const [first] = await store.checkpoints.rows(query)
    t.match(first, { ns: '', id: 'c1', refs: { m: '1' }, size: 0, meta_size: 0 })
    t.equal(first!.value.length + first!.metadata.length, 0)
    t.equal((await store.checkpoints.blobs(query)).length, blobs.length)
    t.equal((await store.checkpoints.blobs(query))[0]!.value.length, 0)

    const sum = (rows: { value: Uint8Array }[]) => rows.reduce((all, { value }) => all + value.length, 0)
    const storage = await store.checkpoints.storage(thread_id)
    t.match(storage, {
      checkpoints: { rows: 10, bytes: checkpoints.reduce((all, row) => all + row.size + row.meta_size, 0) },
      blobs: { rows: 25, bytes: sum(blobs) },
      writes: { rows: 25, bytes: sum(writes) },
    })
    t.same(new Set(storage.blobs.channels.map(({ channel }) => channel)), new Set(names))
    t.equal(
      storage.blobs.channels.reduce((all, { bytes }) => all + bytes, 0),
      sum(blobs),
    )
    t.match(await store.checkpoints.storage(randomUUID()), {
      checkpoints: { rows: 0, bytes: 0 },
      blobs: { channels: [] },
    })

    const gone = checkpoints.filter(({ id, ns }) => id === 'c1' && ns !== 'sub')
    await done(
      { step: 'checkpoints.remove', thread_id, checkpoints: gone },
      { step: 'blobs.remove', thread_id, blobs: blobs.slice(1) },
    )
    const left = { thread_id, after: null, limit: 1_000, bytes: 1_000_000 }
    t.same(
      (await store.checkpoints.rows(left)).map(({ ns, id }) => [ns, id]),
      checkpoints.filter(row => !gone.includes(row)).map(({ ns, id }) => [ns, id]),
    )
    t.same(
      new Set((await store.checkpoints.writes(left)).map(({ ns }) => ns)),
      new Set(['sub']),
      'their writes go along',
    )
    t.equal((await store.checkpoints.blobs(left)).length, 1)
    const other = { ...left, thread_id: neighbour.thread_id }
    t.equal((await store.checkpoints.rows(other)).length, checkpoints.length)
    t.equal((await store.checkpoints.writes(other)).length, writes.length)
    t.equal((await store.checkpoints.blobs(other)).length, blobs.length)
    await done(
      { step: 'checkpoints.remove', thread_id, checkpoints: [] },
      { step: 'blobs.remove', thread_id, blobs: [] },
    )
  })
}
