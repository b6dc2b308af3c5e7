/** The routes of the edge: one row each. */
import type { RunMode } from '../schemas/runs.js'
import { rpc } from '../schemas/subjects.js'

/**
 * How a route is answered: `json` forwards a call and its answer; `create` creates a run; the joins attach to one;
 * the edge itself answers the others.
 */
export type AnswerKind =
  | 'json'
  | 'create'
  | 'join-stream'
  | 'join-wait'
  | 'join-thread'
  | 'command'
  | 'events'
  | 'socket'
  | 'cancel'
  | 'root'
  | 'ok'
  | 'ready'
  | 'info'

export interface Row {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  answer: AnswerKind
  subject: string
  /** Served with WEFT_TEST=1 only. */
  test?: boolean
  /** Routes that create a run: how it is followed. */
  mode?: RunMode
}

/** Paths of the control plane: it needs its key, takes JSON only, and is closed to pages of other origins. */
export const CONTROL = /^\/v[12]\//
/** Clients of a self-hosted control plane put this in front of its paths (API: control-plane 2.1). */
export const CONTROL_PREFIX = '/api-host'

export interface Route extends Row {
  /** Names of the path's parameters, in order. */
  params: string[]
  control: boolean
}

const { create, get, join, state } = {
  create: rpc('runs', 'create'),
  get: rpc('runs', 'get'),
  join: rpc('runs', 'join'),
  state: rpc('threads', 'state'),
}

// biome-ignore format: a table
const ROWS: readonly Row[] = [
  { method: 'GET', path: '/', answer: 'root', subject: '' },
  { method: 'GET', path: '/ok', answer: 'ok', subject: rpc('system', 'check') },
  { method: 'GET', path: '/ready', answer: 'ready', subject: rpc('system', 'ready') },
  { method: 'GET', path: '/info', answer: 'info', subject: '' },
  { method: 'POST', path: '/internal/truncate', answer: 'json', subject: rpc('system', 'truncate'), test: true },

  { method: 'POST', path: '/assistants', answer: 'json', subject: rpc('assistants', 'create') },
  { method: 'POST', path: '/assistants/search', answer: 'json', subject: rpc('assistants', 'search') },
  { method: 'POST', path: '/assistants/count', answer: 'json', subject: rpc('assistants', 'count') },
  { method: 'GET', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'get') },
  { method: 'PATCH', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'update') },
  { method: 'DELETE', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'delete') },
  { method: 'GET', path: '/assistants/:assistant_id/graph', answer: 'json', subject: rpc('assistants', 'graph') },
  { method: 'GET', path: '/assistants/:assistant_id/schemas', answer: 'json', subject: rpc('assistants', 'schemas') },
  { method: 'GET', path: '/assistants/:assistant_id/subgraphs', answer: 'json', subject: rpc('assistants', 'subgraphs') },
  { method: 'GET', path: '/assistants/:assistant_id/subgraphs/:namespace', answer: 'json', subject: rpc('assistants', 'subgraphs') },
  { method: 'POST', path: '/assistants/:assistant_id/versions', answer: 'json', subject: rpc('assistants', 'versions') },
  { method: 'POST', path: '/assistants/:assistant_id/latest', answer: 'json', subject: rpc('assistants', 'latest') },

  { method: 'PUT', path: '/store/items', answer: 'json', subject: rpc('items', 'put') },
  { method: 'GET', path: '/store/items', answer: 'json', subject: rpc('items', 'get') },
  { method: 'DELETE', path: '/store/items', answer: 'json', subject: rpc('items', 'delete') },
  { method: 'POST', path: '/store/items/search', answer: 'json', subject: rpc('items', 'search') },
  { method: 'POST', path: '/store/namespaces', answer: 'json', subject: rpc('items', 'namespaces') },

  { method: 'POST', path: '/threads', answer: 'json', subject: rpc('threads', 'create') },
  { method: 'POST', path: '/threads/search', answer: 'json', subject: rpc('threads', 'search') },
  { method: 'POST', path: '/threads/prune', answer: 'json', subject: rpc('threads', 'prune') },
  { method: 'POST', path: '/threads/count', answer: 'json', subject: rpc('threads', 'count') },
  { method: 'GET', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'get') },
  { method: 'PATCH', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'update') },
  { method: 'DELETE', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'delete') },
  { method: 'POST', path: '/threads/:thread_id/copy', answer: 'json', subject: rpc('threads', 'copy') },
  { method: 'GET', path: '/threads/:thread_id/storage', answer: 'json', subject: rpc('threads', 'storage') },
  { method: 'GET', path: '/threads/:thread_id/state', answer: 'json', subject: state },
  { method: 'POST', path: '/threads/:thread_id/state', answer: 'json', subject: rpc('threads', 'update_state') },
  { method: 'PATCH', path: '/threads/:thread_id/state', answer: 'json', subject: rpc('threads', 'patch_state') },
  { method: 'GET', path: '/threads/:thread_id/state/:checkpoint_id', answer: 'json', subject: state },
  { method: 'POST', path: '/threads/:thread_id/state/checkpoint', answer: 'json', subject: rpc('threads', 'state_at') },
  { method: 'GET', path: '/threads/:thread_id/history', answer: 'json', subject: rpc('threads', 'history') },
  { method: 'POST', path: '/threads/:thread_id/history', answer: 'json', subject: rpc('threads', 'search_history') },
  { method: 'GET', path: '/threads/:thread_id/stream', answer: 'join-thread', subject: rpc('threads', 'follow') },
  { method: 'POST', path: '/threads/:thread_id/commands', answer: 'command', subject: rpc('threads', 'command') },
  { method: 'POST', path: '/threads/:thread_id/stream/events', answer: 'events', subject: rpc('threads', 'filter') },
  { method: 'GET', path: '/threads/:thread_id/stream/events', answer: 'socket', subject: rpc('threads', 'socket_command') },

  { method: 'POST', path: '/threads/:thread_id/runs/crons', answer: 'json', subject: rpc('crons', 'create_for_thread') },
  { method: 'POST', path: '/runs/crons', answer: 'json', subject: rpc('crons', 'create') },
  { method: 'POST', path: '/runs/crons/search', answer: 'json', subject: rpc('crons', 'search') },
  { method: 'POST', path: '/runs/crons/count', answer: 'json', subject: rpc('crons', 'count') },
  { method: 'GET', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'get') },
  { method: 'PATCH', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'update') },
  { method: 'DELETE', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'delete') },

  { method: 'POST', path: '/runs', answer: 'create', subject: create, mode: 'background' },
  { method: 'POST', path: '/runs/batch', answer: 'create', subject: rpc('runs', 'batch'), mode: 'background' },
  { method: 'POST', path: '/runs/cancel', answer: 'json', subject: rpc('runs', 'cancel_many') },
  { method: 'POST', path: '/runs/stream', answer: 'create', subject: create, mode: 'stream' },
  { method: 'POST', path: '/runs/wait', answer: 'create', subject: create, mode: 'wait' },
  { method: 'GET', path: '/runs/:run_id/stream', answer: 'join-stream', subject: join },
  { method: 'GET', path: '/runs/:run_id/join', answer: 'join-wait', subject: join },

  { method: 'POST', path: '/threads/:thread_id/runs', answer: 'create', subject: create, mode: 'background' },
  { method: 'GET', path: '/threads/:thread_id/runs', answer: 'json', subject: rpc('runs', 'list') },
  { method: 'POST', path: '/threads/:thread_id/runs/stream', answer: 'create', subject: create, mode: 'stream' },
  { method: 'POST', path: '/threads/:thread_id/runs/wait', answer: 'create', subject: create, mode: 'wait' },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id', answer: 'json', subject: get },
  { method: 'DELETE', path: '/threads/:thread_id/runs/:run_id', answer: 'cancel', subject: rpc('runs', 'delete') },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/stream', answer: 'join-stream', subject: join },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/join', answer: 'join-wait', subject: join },
  { method: 'POST', path: '/threads/:thread_id/runs/:run_id/cancel', answer: 'cancel', subject: rpc('runs', 'cancel') },

  { method: 'POST', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'create') },
  { method: 'GET', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'search') },
  { method: 'DELETE', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'delete_all') },
  { method: 'GET', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'get') },
  { method: 'PATCH', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'update') },
  { method: 'DELETE', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'delete') },
  { method: 'GET', path: '/v2/deployments/:deployment_id/logs', answer: 'json', subject: rpc('deployments', 'logs') },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions', answer: 'json', subject: rpc('revisions', 'search') },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions', answer: 'json', subject: rpc('revisions', 'create') },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions/:revision_id', answer: 'json', subject: rpc('revisions', 'get') },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions/:revision_id/logs', answer: 'json', subject: rpc('deployments', 'logs') },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions/:revision_id/redeploy', answer: 'json', subject: rpc('revisions', 'redeploy') },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions/:revision_id/interrupt', answer: 'json', subject: rpc('revisions', 'interrupt') },
  { method: 'POST', path: '/v1/projects/:deployment_id/revisions/:revision_id/build_logs', answer: 'json', subject: rpc('deployments', 'build_logs') },
  { method: 'POST', path: '/v1/projects/:deployment_id/revisions/:revision_id/deploy_logs', answer: 'json', subject: rpc('deployments', 'deploy_logs') },
  { method: 'POST', path: '/v1/projects/:deployment_id/deploy_logs', answer: 'json', subject: rpc('deployments', 'runtime_logs') },

  { method: 'POST', path: '/v2/auth/providers', answer: 'json', subject: rpc('providers', 'create') },
  { method: 'GET', path: '/v2/auth/providers', answer: 'json', subject: rpc('providers', 'search') },
  { method: 'GET', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'get') },
  { method: 'PATCH', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'update') },
  { method: 'DELETE', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'delete') },
]

export const ROUTES: readonly Route[] = ROWS.map(row => ({
  ...row,
  params: [...row.path.matchAll(/:(\w+)/g)].map(([, name]) => name!),
  control: CONTROL.test(row.path),
}))

/** Parts of the API that are not served yet, by path. */
const NOT_SERVED: readonly [path: RegExp, what: string][] = [
  [/^\/mcp\/?$/, 'MCP'],
  [/^\/a2a\/[^/]+$|^\/\.well-known\/agent-card\.json$/, 'A2A'],
  [/^\/metrics$/, 'metrics'],
  [/^\/docs$|^\/openapi\.json$/, 'the OpenAPI document'],
  [/^\/ui\/./, 'user interface components'],
]

/** The sentence for a path of the API that is not served yet; null for any other. */
export function notServed(path: string): string | null {
  const found = NOT_SERVED.find(([pattern]) => pattern.test(path))
  return found === undefined ? null : `Weft does not serve ${found[1]} yet`
}
