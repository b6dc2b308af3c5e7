/** Assistants over HTTP and through the official SDKs (docs/spec/assistants.md). */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { basicServer } from '../helpers/cluster.js'
import { type Send, sender } from '../helpers/http.js'
import { linesOnStore } from '../helpers/sdk.js'

t.setTimeout(120_000)

interface Assistant {
  assistant_id: string
  name: string
  version: number
  [member: string]: unknown
}

t.test('assistants', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  const create = async (more: object = {}): Promise<Assistant> => {
    const { status, body } = await send('POST', '/assistants', { graph_id: 'echo', ...more })
    t.equal(status, 200)
    return body as Assistant
  }

  for (const { name, connect } of linesOnStore)
    await t.test(name, async t => {
      const { assistants } = connect(cluster.url)
      const made = await assistants.create({ graphId: 'factory', name: `Mine ${name}`, metadata: { owner: name } })
      const found = await assistants.search({ metadata: { owner: name } })
      t.same(
        found.map(one => one.assistant_id),
        [made.assistant_id],
      )
      t.equal(await assistants.count({ metadata: { owner: name } }), 1)
      const changed = await assistants.update(made.assistant_id, {
        config: { configurable: { who: 'ada' } },
        metadata: { team: 'a' },
      })
      t.match(changed, { version: 2, metadata: { owner: name, team: 'a' }, name: `Mine ${name}` })
      t.same(
        (await assistants.getVersions(made.assistant_id)).map(one => one.version),
        [2, 1],
      )
      t.match(await assistants.setLatest(made.assistant_id, 1), { version: 1, metadata: { owner: name }, config: {} })
      await assistants.delete(made.assistant_id)
      await t.rejects(assistants.get(made.assistant_id), /404/)
      const paged = await assistants.search({ limit: 1, includePagination: true })
      t.equal(paged.assistants.length, 1)
      t.equal(paged.next, '1')
    })

  await t.test('search: filters, orders, pages and select', t => searches(t, send, create))
  await t.test('versions: numbers never repeat, each keeps all members', t => versions(t, send, create))
  await t.test('of many patches at once none is lost', t => race(t, send, create))
  await t.test('a delete takes crons, runs and, if asked, threads along', t => removal(t, send, create))
  await t.test('a deleted system assistant: its graph can still be used', t => systemAssistant(t, send))
  await t.test('what is refused names the member', t => refusals(t, send, create))
})

type Create = (more?: object) => Promise<Assistant>

async function searches(t: Test, send: Send, create: Create) {
  const mark = randomUUID()
  const made: Assistant[] = []
  for (const [i, name] of ['100% a_b', 'Beta', 'alpha', 'beta two'].entries())
    made.push(
      await create({
        name,
        graph_id: i === 2 ? 'counter' : 'echo',
        metadata: { mark, tags: ['x', `t${i}`], nested: { i, none: null } },
      }),
    )
  const names = async (body: object) =>
    ((await send('POST', '/assistants/search', body)).body as Assistant[]).map(one => one.name)
  const mine = { metadata: { mark } }
  t.same(await names(mine), ['beta two', 'alpha', 'Beta', '100% a_b'], 'newest first')
  t.same(await names({ ...mine, sort_by: 'created_at', sort_order: 'asc', limit: 2 }), ['100% a_b', 'Beta'])
  t.same(await names({ ...mine, sort_by: 'name', sort_order: 'asc' }), ['100% a_b', 'Beta', 'alpha', 'beta two'])
  t.same(await names({ ...mine, name: 'BETA' }), ['beta two', 'Beta'])
  t.same(await names({ ...mine, name: '%' }), ['100% a_b'], 'no pattern')
  t.same(await names({ ...mine, name: 'a_b' }), ['100% a_b'])
  t.same(await names({ ...mine, graph_id: 'counter' }), ['alpha'])
  t.same(await names({ metadata: { mark, tags: ['t1'] } }), ['Beta'], 'a subset of a list')
  t.same(await names({ metadata: { mark, nested: { i: 3 } } }), ['beta two'])
  t.same(await names({ metadata: { mark, nested: { none: null, i: 0 } } }), ['100% a_b'])
  t.same(await names({ metadata: { mark, absent: null } }), [], 'null is no missing member')
  const page = await send('POST', '/assistants/search', { ...mine, limit: 2, offset: 1, select: ['name', 'version'] })
  t.same(page.body, [
    { name: 'alpha', version: 1 },
    { name: 'Beta', version: 1 },
  ])
  t.equal(page.headers.get('x-pagination-next'), '3')
  t.equal(page.headers.get('x-pagination-total'), '4')
  const last = await send('POST', '/assistants/search', { ...mine, limit: 2, offset: 2 })
  t.equal(last.headers.get('x-pagination-next'), null)
  t.equal(last.headers.get('x-pagination-total'), '4')
  t.same((await send('POST', '/assistants/search', { ...mine, offset: 9 })).body, [])
  t.equal((await send('POST', '/assistants/count', mine)).body, 4)
  t.equal((await send('POST', '/assistants/count', { ...mine, name: 'beta' })).body, 2)
  t.ok(((await send('POST', '/assistants/count', {})).body as number) > 4)
  for (const sort_by of ['x', '(SELECT 1)', 'created_at; DROP TABLE assistants'])
    t.match(
      await send('POST', '/assistants/count', { ...mine, sort_by }),
      { status: 200, body: 4 },
      'no order of a count',
    )
}

async function versions(t: Test, send: Send, create: Create) {
  const { assistant_id } = await create({ name: 'one', config: { tags: ['a'] }, metadata: { a: 1 } })
  const at = `/assistants/${assistant_id}`
  const patch = async (body: object) => (await send('PATCH', at, body)).body as Assistant
  const latest = async (version: number) => (await send('POST', `${at}/latest`, { version })).body as Assistant
  const second = await patch({ name: 'two', description: 'd', context: { x: 1 }, metadata: { b: 2 } })
  t.match(second, { version: 2, name: 'two', config: { tags: ['a'] }, context: { x: 1 }, metadata: { a: 1, b: 2 } })
  t.match(await latest(1), { version: 1, name: 'one', description: null, context: {}, metadata: { a: 1 } })
  t.match(await patch({ config: {} }), { version: 3, name: 'one', config: {}, metadata: { a: 1 } })
  t.match(await patch({}), { version: 4 }, 'also an empty patch makes a version')
  t.match(await patch({ graph_id: 'counter', name: null }), { version: 5, graph_id: 'counter', name: 'one' })
  const list = async (body: object) =>
    ((await send('POST', `${at}/versions`, body)).body as Assistant[]).map(one => one.version)
  t.same(await list({}), [5, 4, 3, 2, 1])
  t.same(await list({ limit: 2, offset: 1 }), [4, 3])
  t.same(await list({ metadata: { b: 2 } }), [2])
  t.same(await list({ metadata: { b: 3 } }), [])
  t.equal((await send('POST', `${at}/latest?version=2`, {})).status, 200, 'as a query parameter')
  const { body } = await send('POST', `${at}/versions`, { limit: 1, offset: 3 })
  t.match((body as Assistant[])[0], { version: 2, name: 'two', description: 'd', metadata: { a: 1, b: 2 } })
}

async function race(t: Test, send: Send, create: Create) {
  const { assistant_id } = await create()
  const patches = Array.from({ length: 20 }, (_, i) =>
    send('PATCH', `/assistants/${assistant_id}`, { metadata: { [`m${i}`]: i } }),
  )
  const made = await Promise.all(patches)
  t.same(
    made.map(({ body }) => (body as Assistant).version).sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, i) => i + 2),
  )
  const { body } = await send('GET', `/assistants/${assistant_id}`)
  t.equal(Object.keys((body as Assistant).metadata as object).length, 20)
}

async function removal(t: Test, send: Send, create: Create) {
  const [kept, removed] = [await create(), await create()]
  const threadOf = async (assistant_id: string) => {
    const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
    await send('POST', `/threads/${thread_id}/runs/wait`, { assistant_id, input: {} })
    return thread_id
  }
  const [left, right, other] = [
    await threadOf(removed.assistant_id),
    await threadOf(removed.assistant_id),
    await threadOf(kept.assistant_id),
  ]
  const cron = { assistant_id: removed.assistant_id, schedule: '0 0 1 1 *' }
  const { cron_id } = (await send('POST', '/runs/crons', cron)).body as { cron_id: string }
  const pending = { assistant_id: removed.assistant_id, input: {}, after_seconds: 3_600 }
  const run = (await send('POST', `/threads/${left}/runs`, pending)).body as { run_id: string }
  t.equal((await send('DELETE', `/assistants/${removed.assistant_id}`)).status, 204)
  t.equal((await send('DELETE', `/assistants/${removed.assistant_id}`)).status, 404)
  t.equal((await send('GET', `/runs/crons/${cron_id}`)).status, 404)
  t.match((await send('GET', `/threads/${left}/runs/${run.run_id}`)).body, { status: 'interrupted' })
  t.equal((await send('GET', `/threads/${right}`)).status, 200, 'threads stay')
  t.equal((await send('POST', '/runs/wait', { assistant_id: removed.assistant_id, input: {} })).status, 404)
  const again = await create({ assistant_id: removed.assistant_id })
  const list = await send('POST', `/assistants/${again.assistant_id}/versions`, {})
  t.equal((list.body as Assistant[]).length, 1, 'under the same id nothing of the old one is left')
  t.equal((await send('DELETE', `/assistants/${again.assistant_id}?delete_threads=true`)).status, 204)
  for (const thread_id of [left, right]) t.equal((await send('GET', `/threads/${thread_id}`)).status, 404)
  t.equal((await send('GET', `/threads/${other}`)).status, 200)
}

async function systemAssistant(t: Test, send: Send) {
  t.equal((await send('DELETE', '/assistants/factory')).status, 204)
  t.equal((await send('GET', '/assistants/factory')).status, 404)
  t.equal((await send('POST', '/assistants', { graph_id: 'factory' })).status, 200)
}

async function refusals(t: Test, send: Send, create: Create) {
  const { assistant_id } = await create()
  const at = `/assistants/${assistant_id}`
  const unknown = `/assistants/${randomUUID()}`
  const rows: [method: string, path: string, body: unknown, status: number, detail: RegExp][] = [
    ['GET', '/assistants/no-uuid', undefined, 422, /assistant_id: expected a uuid or the id of a graph/],
    ['PATCH', unknown, {}, 404, /not found/],
    ['DELETE', unknown, undefined, 404, /not found/],
    ['POST', `${unknown}/versions`, {}, 404, /not found/],
    ['POST', `${unknown}/latest`, { version: 1 }, 404, /not found/],
    ['POST', `${at}/latest`, { version: 7 }, 404, /Version 7/],
    ['POST', `${at}/latest`, {}, 422, /version: expected/],
    ['POST', `${at}/latest`, { version: 0 }, 422, /version/],
    ['PATCH', at, { graph_id: 'nobody' }, 404, /Graph 'nobody' not found/],
    ['PATCH', at, { config: [] }, 422, /config/],
    ['PATCH', at, { metadata: 'x' }, 422, /metadata/],
    ['DELETE', `${at}?delete_threads=maybe`, undefined, 422, /delete_threads: expected true or false/],
    ['POST', '/assistants/search', { limit: 0 }, 422, /limit/],
    ['POST', '/assistants/search', { limit: 1001 }, 422, /limit/],
    ['POST', '/assistants/search', { sort_by: 'metadata' }, 422, /sort_by/],
    ['POST', '/assistants/search', { select: ['nothing'] }, 422, /select/],
    ['POST', `${at}/versions`, { limit: -1 }, 422, /limit/],
  ]
  for (const [method, path, body, status, detail] of rows)
    t.match(await send(method, path, body), { status, body: { detail } }, `${method} ${path} ${JSON.stringify(body)}`)
  const forged = await create({ metadata: { created_by: 'system' } })
  t.same(forged.metadata, {})
  const patched = await send('PATCH', `/assistants/${forged.assistant_id}`, { metadata: { created_by: 'system' } })
  t.same((patched.body as Assistant).metadata, {})
}
