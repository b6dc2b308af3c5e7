/** The values of authorization events, and what changes to them do to a request (docs/spec/auth.md#events). */
import t from 'tap'
import { ROUTES, type Route } from '../../edge/routes.js'
import { type AuthEvent, handlerNames, userOf } from '../../schemas/auth/auth.js'
import { allows, scopesFor } from '../../schemas/auth/keys.js'
import { openCheck } from '../../schemas/auth/values.js'
import type { JsonObject } from '../../schemas/json.js'

const THREAD = '0F8FAD5B-D9CB-469F-A165-70867728950E'

/** Runs `handle` on every event of the route; the changed request. */
function check(
  route: string,
  { params = {}, query = '', body }: { params?: { [name: string]: string }; query?: string; body?: unknown },
  handle: (event: AuthEvent, value: JsonObject) => void = () => {},
) {
  const { auth } = ROUTES.find(({ method, path }) => `${method} ${path}` === route) as Route & { auth: AuthEvent[] }
  const open = openCheck({ events: auth, params, query, body })
  for (const { event, value } of open.fired) handle(event, value)
  return {
    events: open.fired.map(({ event }) => event),
    values: open.fired.map(({ value }) => value),
    ...open.finish(),
  }
}
const stamp = (_: AuthEvent, value: JsonObject) => {
  ;(value.metadata as JsonObject).owner = 'alice'
}

t.test('every route names its events, or says that it is public', async t => {
  const open = ROUTES.filter(({ auth }) => auth === 'public').map(({ method, path }) => `${method} ${path}`)
  const PUBLIC =
    /^GET \/(ok|ready|info|metrics|docs|openapi\.json|workers\/logs)?$|^POST \/internal\/truncate$|^GET \/(docs|ui|console)\/|^GET \/console$|^DELETE \/mcp$|^GET (\/v2\/auth\/(start|callback|setup)|\/host-oauth-callback)\/|^GET \/o\/:tenant_id\/host\//
  for (const route of open) t.match(route, PUBLIC, `${route} may be public`)
  for (const { auth, path, control } of ROUTES) {
    t.equal(auth === 'control' || auth === 'signed', control, path)
    // The requests that MCP and A2A make for their clients name theirs.
    if (typeof auth !== 'string') t.ok(auth.length > 0 || /^\/(mcp$|a2a\/|\.well-known\/)/.test(path), path)
  }
})

t.test('a stamp on metadata is part of the request', async t => {
  for (const route of ['POST /threads', 'POST /assistants', 'PATCH /assistants/:assistant_id', 'POST /runs'])
    for (const body of [undefined, null, {}, { metadata: null }, { metadata: { owner: 'mallory', x: 1 } }]) {
      const { body: changed } = check(route, { body }, stamp)
      t.match(changed, { metadata: { owner: 'alice' } }, `${route} ${JSON.stringify(body)}`)
    }
  t.same(check('POST /threads', { body: { metadata: { x: 1 } } }, () => {}).body, undefined, 'unchanged')
  t.same(check('POST /threads', { body: undefined }, () => {}).body, undefined, 'none')
  t.match(
    check('POST /threads', { body: { ttl: 5 } }, (_, value) => {
      value.metadata = { owner: 'alice' }
    }).body,
    { ttl: 5, metadata: { owner: 'alice' } },
    'replaced',
  )
  t.throws(
    () =>
      check('POST /threads', { body: {} }, (_, value) => {
        value.metadata = 'alice'
      }),
    { code: 'internal' },
  )
})

t.test('a run fires two events, each run of a batch too', async t => {
  const body = { assistant_id: 'agent', input: { x: 1 }, metadata: { a: 1 }, config: { configurable: { y: 2 } } }
  const { events, values } = check('POST /threads/:thread_id/runs', { params: { thread_id: THREAD }, body })
  t.same(events, ['threads:create_run', 'assistants:read'])
  t.match(values[0], {
    thread_id: THREAD.toLowerCase(),
    assistant_id: 'agent',
    metadata: { a: 1 },
    kwargs: { input: { x: 1 }, config: { configurable: { y: 2 } } },
  })
  t.same(values[1], { assistant_id: 'agent', metadata: {} })
  const batch = check('POST /runs/batch', { body: [body, { ...body, assistant_id: 'other' }] }, (event, value) => {
    if (event === 'threads:create_run') (value.metadata as JsonObject).owner = 'alice'
    if (event === 'threads:create_run') (value.kwargs as JsonObject).context = { z: 3 }
  })
  t.same(batch.events, ['threads:create_run', 'assistants:read', 'threads:create_run', 'assistants:read'])
  t.match(batch.body, [
    { assistant_id: 'agent', metadata: { owner: 'alice' }, context: { z: 3 }, input: { x: 1 } },
    { assistant_id: 'other', metadata: { owner: 'alice' }, context: { z: 3 } },
  ])
})

t.test('a command fires the events of what it does', async t => {
  const route = 'POST /threads/:thread_id/commands'
  const params = { thread_id: THREAD }
  const run = { id: 1, method: 'run.start', params: { assistant_id: 'agent', input: {} } }
  const started = check(
    route,
    { params, body: run },
    (event, value) => event === 'threads:create_run' && stamp(event, value),
  )
  t.same(started.events, ['threads:create_run', 'assistants:read'])
  t.match(started.body, { id: 1, method: 'run.start', params: { assistant_id: 'agent', metadata: { owner: 'alice' } } })
  for (const method of ['state.get', 'subscription.subscribe', 'unknown', undefined])
    t.same(check(route, { params, body: { id: 1, method, params: {} } }).events, ['threads:read'], `${method}`)
  t.same(check(route, { params, body: undefined }).events, ['threads:read'], 'the upgrade of a socket')
})

t.test('threads of an assistant are deleted by their own event', async t => {
  const route = 'DELETE /assistants/:assistant_id'
  const params = { assistant_id: 'a' }
  t.same(check(route, { params }).events, ['assistants:delete'])
  // In every form that the resource worker takes for true.
  for (const value of ['true', '1', 'YES', '%20true', 'true+', '+1&delete_threads=false'])
    t.same(
      check(route, { params, query: `delete_threads=${value}` }).events,
      ['assistants:delete', 'threads:delete'],
      value,
    )
  t.same(check(route, { params, query: 'delete_threads=false&delete_threads=true' }).events, ['assistants:delete'])
  t.throws(() => check(route, { params, query: 'delete_threads=maybe' }), { code: 'invalid' })
})

t.test('a join that cancels the run when its client leaves is an update of the thread', async t => {
  for (const route of ROUTES.filter(({ answer }) => answer === 'join-stream' || answer === 'join-wait'))
    for (const [query, events] of [
      ['', ['threads:read']],
      ['cancel_on_disconnect=0', ['threads:read']],
      ['cancel_on_disconnect=false&cancel_on_disconnect=true', ['threads:read']],
      ['cancel_on_disconnect=true', ['threads:read', 'threads:update']],
      ['stream_mode=values&cancel_on_disconnect=1', ['threads:read', 'threads:update']],
    ] as const)
      t.same(check(`${route.method} ${route.path}`, { params: {}, query }).events, events, `${route.path}?${query}`)
})

t.test('a copy gets the metadata of its handler, not of its client', async t => {
  const route = 'POST /threads/:thread_id/copy'
  const params = { thread_id: THREAD }
  t.same(check(route, { params, body: { metadata: { owner: 'mallory' } } }).values[1]!.metadata, {})
  const copied = check(route, { params }, (event, value) => event === 'threads:create' && stamp(event, value))
  t.same(copied.events, ['threads:read', 'threads:create'])
  t.same(copied.body, { metadata: { owner: 'alice' } })
})

t.test('a namespace is rewritten in all five operations of the store', async t => {
  const mine = (_: AuthEvent, value: JsonObject) => {
    value.namespace = ['alice', ...((value.namespace as string[] | null) ?? [])]
  }
  t.same(check('PUT /store/items', { body: { namespace: ['a'], key: 'k', value: {} } }, mine).body, {
    namespace: ['alice', 'a'],
    key: 'k',
    value: {},
  })
  t.same(check('DELETE /store/items', { body: { namespace: ['a'], key: 'k' } }, mine).body, {
    namespace: ['alice', 'a'],
    key: 'k',
  })
  const query = check('GET /store/items', { query: 'namespace=a&namespace=b.c&key=k&refresh_ttl=true' }, mine).query
  t.same([...new URLSearchParams(query)].sort(), [
    ['key', 'k'],
    ['namespace', 'alice.a.b.c'],
    ['refresh_ttl', 'true'],
  ])
  t.same(check('POST /store/items/search', { body: { namespace_prefix: ['a'], limit: 1 } }, mine).body, {
    namespace_prefix: ['alice', 'a'],
    limit: 1,
  })
  t.same(check('POST /store/items/search', {}, mine).body, { namespace_prefix: ['alice'] })
  t.same(check('POST /store/namespaces', { body: { suffix: ['x'] } }, mine).body, { suffix: ['x'], prefix: ['alice'] })
  const dotted = (_: AuthEvent, value: JsonObject) => {
    value.namespace = ['a.b', 'c']
  }
  t.throws(() => check('GET /store/items', { query: 'namespace=x&key=k' }, dotted), { code: 'invalid' }, 're-validated')
  for (const namespace of ['alice', [1], [['a']], {}]) {
    const bad = (_: AuthEvent, value: JsonObject) => {
      value.namespace = namespace
    }
    for (const route of ['PUT /store/items', 'DELETE /store/items', 'GET /store/items', 'POST /store/items/search'])
      t.throws(() => check(route, { body: {}, query: 'namespace=x&key=k' }, bad), { code: 'internal' }, route)
  }
})

t.test('users and handlers', async t => {
  t.same(userOf('alice'), { identity: 'alice', permissions: [], display_name: 'alice', is_authenticated: true })
  t.same(userOf({ identity: 'a', permissions: ['x'], role: 'admin' }), {
    identity: 'a',
    permissions: ['x'],
    display_name: 'a',
    is_authenticated: true,
    role: 'admin',
  })
  for (const bad of [
    null,
    undefined,
    '',
    5,
    true,
    [],
    {},
    { identity: 5 },
    { identity: '' },
    { identity: 'a', permissions: 'x' },
  ])
    t.equal(userOf(bad), null, JSON.stringify(bad))
  t.same(handlerNames('threads:create_run'), ['threads:create_run', 'threads', '*:create_run', '*'])
})

t.test('scopes of keys', async t => {
  const needed = (route: string) => scopesFor(ROUTES.find(({ method, path }) => `${method} ${path}` === route)!)
  const may = (scopes: Parameters<typeof allows>[0], route: string) => allows(scopes, needed(route))
  t.ok(may(['read'], 'GET /threads/:thread_id'))
  t.ok(may(['read'], 'POST /threads/search'))
  t.notOk(may(['read'], 'POST /threads'))
  t.notOk(may(['read'], 'POST /runs/stream'))
  t.ok(may(['read'], 'GET /runs/:run_id/webhook'))
  t.notOk(may(['read'], 'POST /runs/:run_id/webhook/repeat'))
  t.ok(may(['run'], 'POST /runs/:run_id/webhook/repeat'))
  for (const route of ['POST /threads', 'POST /runs/stream', 'POST /runs/cancel', 'GET /runs/:run_id/stream'])
    t.ok(may(['run'], route), route)
  for (const route of ['DELETE /threads/:thread_id', 'PUT /store/items', 'POST /runs/crons', 'POST /assistants'])
    t.notOk(may(['run'], route), route)
  t.ok(may(['write'], 'PUT /store/items'))
  t.notOk(may(['write'], 'POST /assistants'))
  t.ok(may(['assistants'], 'DELETE /assistants/:assistant_id'))
  t.notOk(may(['write', 'assistants'], 'GET /v2/deployments'))
  t.ok(may(['deployments'], 'GET /v2/deployments'))
  t.notOk(may(['deployments'], 'GET /threads/:thread_id'))
  for (const route of ROUTES) t.ok(allows(['admin'], scopesFor(route)), route.path)
  for (const route of ROUTES)
    t.equal(allows([], scopesFor(route)), /public|signed/.test(String(route.auth)), route.path)
})
