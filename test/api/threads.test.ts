import { randomUUID } from 'node:crypto'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'

type Thread = { thread_id: string; [name: string]: unknown }
const ids = (threads: { thread_id: string }[]) => threads.map(({ thread_id }) => thread_id)

t.test('threads', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const { threads, runs } = connect(cluster.url)
      const mark = randomUUID()

      await t.test('create, get, update', async t => {
        const made = await threads.create({ metadata: { mark, list: [1] }, graphId: 'echo' })
        t.same(made.metadata, { mark, list: [1], graph_id: 'echo' })
        t.same(await threads.get(made.thread_id), made)
        const updated = await threads.update(made.thread_id, { metadata: { list: [2], gone: null } as never })
        t.same(updated.metadata, { mark, list: [2], graph_id: 'echo', gone: null }, 'merged key by key; null is kept')
        t.ok(updated.updated_at >= made.updated_at)
        t.equal(updated.created_at, made.created_at)
        t.same(await threads.get(made.thread_id), updated)
        t.same(await threads.search({ metadata: { mark, list: [2] } as never }), [updated], 'found by what it is now')
        t.same(await threads.search({ metadata: { mark, list: [1] } as never }), [])
        await t.rejects(threads.update(randomUUID(), { metadata: {} }), /HTTP 404/)
        await threads.delete(made.thread_id)
        await t.rejects(threads.get(made.thread_id), /HTTP 404/)
        await t.rejects(threads.delete(made.thread_id), /HTTP 404/)
        t.match(await threads.create({ threadId: made.thread_id }), { metadata: {}, values: null }, 'made anew')
      })

      await t.test('search and count', async t => {
        const group = randomUUID()
        const made: Thread[] = []
        for (let i = 0; i < 12; i++) {
          const deep = { tags: i % 2 === 0 ? ['even', 'all'] : ['all'], nested: { i, more: { third: i % 3 } } }
          made.push((await threads.create({ metadata: { group, ...deep } })) as never)
        }
        for (const i of [3, 7]) await runs.wait(made[i]!.thread_id, 'counter', { input: { steps: i } })
        await runs.wait(made[5]!.thread_id, 'ask', { input: {} })
        const of = async (query: object) => ids(await threads.search({ metadata: { group }, limit: 100, ...query }))
        const at = (...places: number[]) => places.map(i => made[i]!.thread_id)

        t.same(await of({}), at(5, 7, 3, 11, 10, 9, 8, 6, 4, 2, 1, 0), 'newest change first')
        t.same(await of({ sortBy: 'created_at', sortOrder: 'asc' }), ids(made))
        t.same(await of({ sortBy: 'thread_id', sortOrder: 'asc' }), ids(made).sort())
        t.same(await of({ sortBy: 'state_updated_at', limit: 3 }), at(5, 7, 3))
        t.same((await of({ sortBy: 'status', sortOrder: 'desc' })).slice(0, 1), at(5), 'interrupted comes last')
        t.same((await threads.search({ metadata: { group } })).length, 10, 'ten unless said otherwise')
        const paged: string[] = []
        for (let offset = 0; offset < 15; offset += 5) paged.push(...(await of({ limit: 5, offset })))
        t.same(paged, await of({}))

        t.same(await of({ metadata: { group, tags: ['even'] } }), at(10, 8, 6, 4, 2, 0))
        t.same(await of({ metadata: { group, nested: { more: { third: 2 } } } }), at(5, 11, 8, 2))
        t.same(await of({ metadata: { group, tags: ['even', 'all'], nested: { i: 4 } } }), at(4))
        t.same(await of({ metadata: { group, tags: 'even' } }), [])
        t.same(await of({ metadata: { group, nested: { i: '4' } } }), [])
        t.same(await of({ metadata: { graph_id: 'ask', group } }), at(5), 'what a run adds can be searched for')
        t.same(await of({ status: 'interrupted' }), at(5))
        t.same(await of({ status: 'busy' }), [])
        t.same((await of({ ids: at(1, 2, 3) })).sort(), at(1, 2, 3).sort())
        t.same(await of({ ids: [] }), await of({}))
        t.same(await of({ values: { numbers: [7] } }), at(7))
        t.same(await of({ values: { steps: 3 } }), at(3))
        t.same(await of({ values: {} }), at(5, 7, 3), 'a thread without values matches none')
        t.same(await of({ values: { steps: 4 } }), [])

        const count = (query: object) => threads.count({ metadata: { group }, ...query } as never)
        t.equal(await count({}), 12)
        t.equal(await count({ status: 'idle' }), 11)
        t.equal(await count({ values: { numbers: [1, 2] } }), 2)
        t.equal(await count({ metadata: { group: 'absent' } }), 0)

        const [whole] = await threads.search({ ids: at(7) } as never)
        t.same(whole, await threads.get(made[7]!.thread_id), 'as a get gives it')
        const selected = { thread_id: made[7]!.thread_id, status: 'idle', values: whole!.values }
        t.same(await threads.search({ ids: at(7), select: ['thread_id', 'status', 'values'] } as never), [selected])
        t.same(await threads.search({ ids: at(7), select: ['config', 'context'] } as never), [
          { config: {}, context: {} },
        ])
        t.notHas((await threads.search({ ids: at(7) }))[0], { context: Object }, 'which is returned on request only')
        for (const { thread_id } of made) await threads.delete(thread_id)
        t.equal(await count({}), 0)
      })

      await t.test('a thread of a stateless run is hidden unless it is kept', async t => {
        const before = await threads.count()
        await runs.wait(null, 'echo', { input: { text: 'x' } })
        t.equal(await threads.count(), before)
        await runs.wait(null, 'echo', { input: { text: mark }, onCompletion: 'keep' } as never)
        t.equal(await threads.count({ values: { seen: mark } } as never), 1)
      })

      await t.test('deleting a busy thread stops its runs and ends their streams', async t => {
        const { thread_id } = await threads.create()
        const start = () => runs.create(thread_id, 'slow', { input: { ms: 60_000 }, streamResumable: true })
        const [first, second] = [await start(), await start()]
        const read = ({ run_id }: { run_id: string }) =>
          readStream(`${cluster.url}/threads/${thread_id}/runs/${run_id}/stream`)
        const reading = read(first)
        const waiting = read(second)
        while ((await runs.get(thread_id, first.run_id)).status !== 'running');
        await threads.delete(thread_id)
        await t.rejects(threads.get(thread_id), /HTTP 404/)
        t.match(await reading, { ended: true }, 'the running one')
        t.match(await waiting, { ended: true }, 'the one in line')
        await t.rejects(runs.get(thread_id, first.run_id), /HTTP 404/)
        await threads.create({ threadId: thread_id })
        t.same(await threads.getHistory(thread_id), [], 'nothing of it comes back')
        t.match(await runs.wait(thread_id, 'echo', { input: { text: 'again' } }), { seen: 'again' })
      })
    })
  }

  await t.test('deleting a thread deletes its crons', async t => {
    const { threads, crons } = lines[0]!.connect(cluster.url)
    const { thread_id } = await threads.create()
    const { cron_id } = (await crons.createForThread(thread_id, 'echo', { schedule: '0 0 1 1 *' })) as {
      cron_id: string
    }
    t.match(await send('GET', `/runs/crons/${cron_id}`), { status: 200 })
    await threads.delete(thread_id)
    t.match(await send('GET', `/runs/crons/${cron_id}`), { status: 404 })
  })

  await t.test('extract', async t => {
    const { threads, runs } = lines[0]!.connect(cluster.url)
    const { thread_id } = await threads.create({ metadata: { a: { list: [{ x: 1 }, { x: 2 }] } } })
    await runs.wait(thread_id, 'counter', { input: { steps: 3 } })
    const extract = {
      last: 'values.numbers[-1]',
      first: 'values.numbers[0]',
      deep: 'metadata.a.list[1].x',
      list: 'metadata.a.list',
      absent: 'values.nope[3].x',
      beyond: 'values.numbers[99]',
      proto: 'metadata.__proto__',
      all: 'interrupts',
    }
    const wanted = {
      last: 3,
      first: 1,
      deep: 2,
      list: [{ x: 1 }, { x: 2 }],
      absent: null,
      beyond: null,
      proto: null,
      all: {},
    }
    const [found] = await threads.search({ ids: [thread_id], extract, select: ['thread_id'] })
    t.same(found, { thread_id, extracted: wanted })
    const [whole] = (await threads.search({ ids: [thread_id], extract })) as never as {
      values: unknown
      extracted: unknown
    }[]
    t.match(whole, { values: { numbers: [1, 2, 3] }, extracted: wanted })
    for (const path of ['status', '', 'values.', 'values[x]', '.values', 'values..x', 'values.a[1', '[0]', 'valuesx'])
      t.match(await send('POST', '/threads/search', { extract: { a: path } }), { status: 422 }, `path "${path}"`)
    const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`a${i}`, 'values']))
    t.match(await send('POST', '/threads/search', { extract: eleven }), { status: 422 })
  })

  await t.test('pagination headers', async t => {
    const group = randomUUID()
    for (let i = 0; i < 5; i++) await send('POST', '/threads', { metadata: { group } })
    const page = async (limit: number, offset: number, more: object = {}) => {
      const { headers } = await send('POST', '/threads/search', { metadata: { group }, limit, offset, ...more })
      return [headers.get('x-pagination-total'), headers.get('x-pagination-next')]
    }
    t.same(await page(2, 0), ['3', '2'])
    t.same(await page(2, 2), ['5', '4'])
    t.same(await page(2, 4), ['5', null])
    t.same(await page(5, 0), ['5', null])
    t.same(await page(2, 9), ['9', null])
    const { body: count } = await send('POST', '/threads/count')
    t.same(await page(1, 0, { metadata: undefined }), ['2', '1'])
    t.same(await page(1, (count as number) - 1, { metadata: undefined }), [`${count}`, null])
  })

  await t.test('time to live', async t => {
    const made = await send('POST', '/threads', { ttl: { ttl: 1.5, strategy: 'keep_latest' } })
    const { thread_id, created_at } = made.body as { thread_id: string; created_at: string }
    const expires_at = new Date(Date.parse(created_at) + 90_000).toISOString()
    const ttl = { strategy: 'keep_latest', ttl_minutes: 1.5, expires_at }
    t.notOk('ttl' in (made.body as object))
    for (const include of ['ttl', '["ttl"]', 'ttl&include=ttl'])
      t.same(((await send('GET', `/threads/${thread_id}?include=${include}`)).body as Thread).ttl, ttl)
    t.notOk('ttl' in ((await send('GET', `/threads/${thread_id}?include=`)).body as object))
    await send('PATCH', `/threads/${thread_id}`, { ttl: 2 })
    t.match((await send('GET', `/threads/${thread_id}?include=ttl`)).body, {
      ttl: { strategy: 'delete', ttl_minutes: 2 },
    })
    await send('PATCH', `/threads/${thread_id}`, { metadata: { a: 1 }, ttl: null })
    t.match((await send('GET', `/threads/${thread_id}?include=ttl`)).body, {
      ttl: { ttl_minutes: 2 },
      metadata: { a: 1 },
    })
    const { body: other } = await send('POST', '/threads', {})
    t.equal(((await send('GET', `/threads/${(other as Thread).thread_id}?include=ttl`)).body as Thread).ttl, null)
    t.match(await send('GET', `/threads/${thread_id}?include=nope`), { status: 422 })
  })

  await t.test('a minimal answer', async t => {
    const { body } = await send('POST', '/threads', {})
    const path = `/threads/${(body as Thread).thread_id}`
    const answer = await send('PATCH', path, { metadata: { b: 2 } }, { prefer: 'return=minimal' })
    t.match(answer, { status: 204, body: undefined })
    t.match(await send('GET', path), { body: { metadata: { b: 2 } } })
    t.match(await send('PATCH', path, { metadata: {} }, { prefer: 'return=representation' }), { status: 200 })
    t.match(await send('DELETE', path), { status: 204, body: undefined })
  })

  await t.test('wrong input is refused with the field that is wrong', async t => {
    const { body } = await send('POST', '/threads', {})
    const path = `/threads/${(body as Thread).thread_id}`
    const wrong: [method: string, path: string, field: string, values: unknown[]][] = [
      ['POST', '/threads', 'thread_id', ['x', 1, {}]],
      ['POST', '/threads', 'metadata', ['x', 1, []]],
      ['POST', '/threads', 'if_exists', ['x', 1]],
      ['POST', '/threads', 'ttl', ['x', 0, -1, { ttl: 'x' }, { ttl: 1, strategy: 'x' }, { strategy: 'delete' }, []]],
      ['PATCH', path, 'metadata', ['x', 1, []]],
      ['PATCH', path, 'ttl', ['x', 0, { ttl: -1 }]],
      ['POST', '/threads/search', 'ids', ['x', ['x'], [1], {}]],
      ['POST', '/threads/search', 'metadata', ['x', 1, []]],
      ['POST', '/threads/search', 'values', ['x', 1, []]],
      ['POST', '/threads/search', 'status', ['x', 1, ['idle']]],
      ['POST', '/threads/search', 'limit', ['10', 0, -1, 1001, 1.5]],
      ['POST', '/threads/search', 'offset', ['0', -1, 0.5]],
      ['POST', '/threads/search', 'sort_by', ['x', 'values', 1]],
      ['POST', '/threads/search', 'sort_order', ['x', 'ASC', 1]],
      ['POST', '/threads/search', 'select', ['values', ['x'], [1], {}]],
      ['POST', '/threads/search', 'extract', ['x', { a: 1 }, ['values']]],
      ['POST', '/threads/count', 'metadata', ['x', []]],
      ['POST', '/threads/count', 'values', ['x', []]],
      ['POST', '/threads/count', 'status', ['x', 1]],
    ]
    for (const [method, at, field, values] of wrong)
      for (const value of values) {
        const answer = await send(method, at, { [field]: value })
        t.match(
          answer,
          { status: 422, body: { detail: new RegExp(field) } },
          `${method} ${field} ${JSON.stringify(value)}`,
        )
      }
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      t.match(await send(method, '/threads/no-uuid', method === 'PATCH' ? {} : undefined), { status: 422 })
      t.match(await send(method, `/threads/${randomUUID()}`, method === 'PATCH' ? {} : undefined), { status: 404 })
    }
    for (const at of ['/threads', '/threads/search', '/threads/count'])
      for (const body of ['[]', '1', '"x"', 'null x', '{'])
        t.ok([400, 422].includes((await send('POST', at, body)).status), `POST ${at} ${body}`)
    for (const path of ['/threads/search', '/threads/count', '/assistants/count', '/threads'])
      t.match(await send('POST', path, 'null'), { status: 422, body: { detail: /expected an object, got null/ } }, path)
  })
})
