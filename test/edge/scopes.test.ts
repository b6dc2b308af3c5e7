/** The scopes of the route table: no scope is evaded by another route to the same resource. */
import t from 'tap'
import { ROUTES, type Route } from '../../edge/routes.js'
import { allows, SCOPES, type Scope, scopesFor } from '../../schemas/auth/keys.js'

/** Routes for keys: the others are open to everybody, or check a signature. */
const routes = ROUTES.filter(({ auth }) => auth !== 'public' && auth !== 'signed')

/** The resource that a route reads or changes, by its path. */
function resourceOf(path: string): string {
  const [first = '', second = '', third = ''] = path.replace(/^\/(v2\/auth|v2|v1)(?=\/)/, '').match(/[^/]+/g) ?? []
  if (first === 'projects') return 'deployments'
  const own = first === 'threads' && third !== '' ? third : first
  if (own === 'runs' && path.includes('/runs/crons')) return 'crons'
  return own === 'store' ? `store ${second}` : own
}

/** A key with one of these scopes may call the route. */
const openTo = (route: Route): Scope[] => SCOPES.filter(scope => allows([scope], scopesFor(route)))
const nameOf = ({ method, path }: Route) => `${method} ${path}`
const isChange = ({ method, repeats, path }: Route) => method !== 'GET' && !repeats && !READS.has(path)

/** Calls of another method than GET that change nothing. */
const READS = new Set([
  '/ui/:assistant_id',
  '/threads/:thread_id/stream/events',
  '/v1/projects/:deployment_id/revisions/:revision_id/build_logs',
  '/v1/projects/:deployment_id/revisions/:revision_id/deploy_logs',
  '/v1/projects/:deployment_id/deploy_logs',
  // They are answered by calls of the API, each of which checks its own scope.
  '/mcp',
  '/a2a/:assistant_id',
])

/** Changes that need another scope than the other changes of their resource, and why that evades nothing. */
const EXCEPTIONS: { readonly [route: string]: string } = {
  'POST /threads': 'a new thread changes no other one',
  'DELETE /threads/:thread_id/runs/:run_id': 'it needs more than the creation and the cancel of runs',
}

t.test('all changes of a resource need the same scopes', async t => {
  const used = new Set<string>()
  const byResource = new Map<string, Route[]>()
  for (const route of routes.filter(isChange)) {
    const resource = resourceOf(route.path)
    byResource.set(resource, [...(byResource.get(resource) ?? []), route])
  }
  for (const [resource, all] of byResource) {
    const usual = all.filter(route => !(nameOf(route) in EXCEPTIONS))
    for (const route of all) {
      if (nameOf(route) in EXCEPTIONS) used.add(nameOf(route))
      else t.same(openTo(route), openTo(usual[0]!), `${resource}: ${nameOf(route)}`)
    }
  }
  t.same([...used].sort(), Object.keys(EXCEPTIONS).sort(), 'no exception without a use')
  t.ok(byResource.size > 8, [...byResource.keys()].join())
})

t.test('whoever may remove something and make it anew may also change it', async t => {
  let compared = 0
  for (const change of routes.filter(({ method, path }) => method === 'PATCH' && path.endsWith('_id'))) {
    const collection = change.path.replace(/\/:\w+$/, '')
    const found = (method: string, path: string) => routes.find(one => one.method === method && one.path === path)
    const parts = [found('DELETE', change.path), found('POST', collection)].filter(one => one !== undefined)
    if (parts.length < 2) continue
    compared++
    const both = parts.flatMap(scopesFor)
    t.ok(allows(both, scopesFor(change)), `${nameOf(change)}: ${both.join(' + ')}`)
  }
  t.ok(compared >= 5, `${compared} resources`)
})

t.test('what creates, changes or removes an OAuth provider needs both scopes', async t => {
  const changes = routes.filter(route => isChange(route) && route.path.startsWith('/v2/auth/providers'))
  t.same(changes.map(nameOf).sort(), [
    'DELETE /v2/auth/providers/:provider_id',
    'PATCH /v2/auth/providers/:provider_id',
    'POST /v2/auth/providers',
    'POST /v2/auth/providers/mcp-discover',
  ])
  for (const route of changes) {
    t.notOk(allows(['deployments'], scopesFor(route)), nameOf(route))
    t.notOk(allows(['oauth'], scopesFor(route)), nameOf(route))
    t.ok(allows(['deployments', 'oauth'], scopesFor(route)), nameOf(route))
  }
})
