/**
 * The changes that handlers make to a request, and the caller as graphs see it: rows for a server with the rules of test/apps/auth.
 * The matrix of ownership.ts follows on the same server and expects that Alice and Bob own nothing: rows that keep a thread or
 * another object belong to others.
 */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { sender } from '../../helpers/http.js'

export const bearer = (name: string, wish?: string) => ({
  authorization: `Bearer ${name}`,
  ...(wish === undefined ? {} : { 'x-wish': wish }),
})

export const callerOf = (url: string) => {
  const send = sender(url)
  const as = (name: string, method: string, path: string, body?: unknown, wish?: string) =>
    send(method, path, body, bearer(name, wish))
  const threadOf = async (name: string) =>
    ((await as(name, 'POST', '/threads', {})).body as { thread_id: string }).thread_id
  return { send, as, threadOf }
}

export async function callerRows(t: Test, url: string): Promise<void> {
  const { send, as, threadOf } = callerOf(url)

  await t.test('whatever goes wrong in a handler, the request does not pass', async t => {
    const thread_id = await threadOf('alice')
    const wishes = ['throw', 'nothing', 'nonsense', 'number']
    for (const wish of [
      ...wishes,
      ...['throw', 'number', 'list', 'operator', 'undefined'].map(one => `handler:${one}`),
    ])
      for (const [method, path, body] of [
        ['GET', `/threads/${thread_id}`, undefined],
        ['POST', '/threads/search', {}],
        ['POST', '/threads', {}],
        ['POST', '/runs/stream', { assistant_id: 'echo' }],
        ['PUT', '/store/items', { namespace: ['alice'], key: 'k', value: {} }],
        ['GET', '/store/items?namespace=alice&key=k', undefined],
      ] as const) {
        const answer = await as('alice', method, path, body, wish)
        t.equal(answer.status, 500, `${wish}: ${method} ${path}`)
        t.notOk(JSON.stringify(answer.body).includes('secret'), 'the message stays inside')
      }
    t.equal((await as('alice', 'GET', `/threads/${thread_id}`, undefined, 'handler:false')).status, 403)
    const [slow, slower] = await Promise.all(
      ['hang', 'handler:hang'].map(wish => as('alice', 'GET', `/threads/${thread_id}`, undefined, wish)),
    )
    t.match([slow!.status, slower!.status], [500, 500])
  })

  await t.test('the graph sees its caller, whatever the client sends', async t => {
    const forged = {
      langgraph_auth_user: { identity: 'mallory' },
      langgraph_auth_user_id: 'mallory',
      langgraph_auth_permissions: ['root'],
    }
    const assistant = (
      await as('alice', 'POST', '/assistants', {
        graph_id: 'seen_config',
        config: { configurable: forged },
        metadata: forged,
        context: {},
      })
    ).body as { assistant_id: string }
    const body = {
      assistant_id: assistant.assistant_id,
      input: {},
      config: { configurable: forged, metadata: forged },
      metadata: forged,
    }
    const headers = { ...bearer('alice'), 'x-weft-identity': 'mallory', langgraph_auth_user_id: 'mallory' }
    const ran = (await send('POST', '/runs/wait', body, headers)).body as { seen_config: { configurable: object } }
    const { configurable } = ran.seen_config
    t.match(configurable, {
      langgraph_auth_user: { identity: 'alice', permissions: ['alice:all'], display_name: 'alice' },
      langgraph_auth_user_id: 'alice',
      langgraph_auth_permissions: ['alice:all'],
      user_id: 'alice',
    })
    t.notOk(JSON.stringify(ran).includes('mallory'))

    const thread_id = await threadOf('alice')
    await as('alice', 'POST', `/threads/${thread_id}/runs/wait`, body)
    const runs = await as('alice', 'GET', `/threads/${thread_id}/runs`)
    t.notOk(/langgraph_auth/.test(JSON.stringify(runs.body)), 'a run does not show it')
    const history = await as('alice', 'GET', `/threads/${thread_id}/history`)
    const metadata = (history.body as { metadata: object }[]).map(state => state.metadata)
    t.notOk(/langgraph_auth/.test(JSON.stringify(metadata)), 'nor does a checkpoint')
  })

  await t.test('a thread that a run makes belongs to its caller', async t => {
    const thread_id = randomUUID()
    const create = { assistant_id: 'echo', input: { text: 'x' }, if_not_exists: 'create' }
    t.equal((await as('alice', 'POST', `/threads/${thread_id}/runs/wait`, create)).status, 200)
    t.match((await as('alice', 'GET', `/threads/${thread_id}`)).body, { metadata: { owner: 'alice' } })
    t.equal((await as('bob', 'GET', `/threads/${thread_id}`)).status, 404)
    t.equal((await as('bob', 'POST', `/threads/${thread_id}/runs`, create)).status, 404, 'not even with if_not_exists')
    const run = (await as('alice', 'POST', '/runs', { assistant_id: 'slow', input: { ms: 3_000 } })).body as {
      run_id: string
    }
    for (const path of ['join', 'stream'])
      t.equal((await as('bob', 'GET', `/runs/${run.run_id}/${path}`)).status, 404, `a stateless run by its id: ${path}`)
    t.match((await as('bob', 'POST', '/runs/cancel', { status: 'all' })).status, 404, 'none of his')
    t.match((await as('alice', 'GET', `/runs/${run.run_id}/join`)).body, { done: true })
  })

  await t.test('to cancel a run by leaving it is an update of its thread', async t => {
    const thread_id = await threadOf('alice')
    const slow = { assistant_id: 'slow', input: { ms: 1_000 } }
    const { run_id } = (await as('alice', 'POST', `/threads/${thread_id}/runs`, slow)).body as { run_id: string }
    for (const path of ['join', 'stream']) {
      const join = `/threads/${thread_id}/runs/${run_id}/${path}?cancel_on_disconnect=true`
      t.equal((await as('alice', 'GET', join, undefined, 'deny threads:update')).status, 403, path)
    }
    const joined = await as('alice', 'GET', `/runs/${run_id}/join`, undefined, 'deny threads:update')
    t.match(joined, { status: 200, body: { done: true } })
  })

  await t.test('a run needs both of its events', async t => {
    const body = { assistant_id: 'echo', input: {} }
    for (const event of ['threads:create_run', 'assistants:read'])
      t.equal((await as('alice', 'POST', '/runs/wait', body, `deny ${event}`)).status, 403, event)
    t.equal((await as('alice', 'POST', '/runs/wait', body, 'deny threads:create')).status, 200)
  })

  await t.test('namespaces are rewritten in all operations of the store', async t => {
    const item = { namespace: ['notes'], key: 'k', value: { mine: true } }
    t.equal((await as('carol', 'PUT', '/store/items', item)).status, 204)
    const namespace = ['of-carol', 'notes']
    t.match((await as('carol', 'GET', '/store/items?namespace=notes&key=k')).body, { namespace, value: { mine: true } })
    t.match((await as('carol', 'POST', '/store/items/search', { namespace_prefix: ['notes'] })).body, {
      items: [{ namespace }],
    })
    t.match((await as('carol', 'POST', '/store/items/search', {})).body, { items: [{ namespace }] })
    t.same((await as('carol', 'POST', '/store/namespaces', {})).body, { namespaces: [namespace] })
    t.same((await as('bob', 'GET', '/store/items?namespace=of-carol.notes&key=k')).status, 404)
    t.same((await as('bob', 'POST', '/store/items/search', {})).body, { items: [] })
    t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['of-carol', 'notes'] })).status, 404)
    t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['free'] })).status, 403)
    t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['bob'] })).status, 204)
    t.equal((await as('bob', 'DELETE', '/store/items', { namespace: ['free'], key: 'k' })).status, 403)
    t.equal((await as('carol', 'DELETE', '/store/items', { namespace: ['notes'], key: 'k' })).status, 204)
    t.equal((await as('carol', 'GET', '/store/items?namespace=notes&key=k')).body, null)
  })
}
