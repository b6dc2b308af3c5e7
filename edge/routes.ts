/** The routes of the edge: one row each. */
import type { RouteGroup } from '../schemas/application.js'
import type { AuthEvent } from '../schemas/auth/auth.js'
import type { Scope } from '../schemas/auth/keys.js'
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
  | 'metrics'
  | 'logs'
  | 'openapi'
  | 'docs'
  | 'docs-file'
  | 'guide'
  | 'guide-file'
  | 'mcp'
  | 'push'
  | 'upload'
  | 'a2a'
  | 'agent-card'
  | 'ui'
  | 'ui-file'
  | 'console'
  | 'console-file'
  | 'console-link'
  | 'oauth-start'
  | 'oauth-callback'
  | 'oauth-wait'

export interface Row {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  answer: AnswerKind
  subject: string
  /**
   * The events of authorization that the route may fire (schemas/auth/values.ts decides by the request), public: it needs
   * no caller, control: it needs the key of the control plane, or a built-in key; or signed: the worker checks a signature.
   */
  auth: readonly AuthEvent[] | 'public' | 'control' | 'signed'
  /** The scope that a key needs, or all of these, where the events do not decide it (schemas/auth/keys.ts). */
  scope?: Scope | readonly Scope[]
  /** Served with WEFT_TEST=1 only. */
  test?: boolean
  /** Routes that create a run: how it is followed. */
  mode?: RunMode
  /** A call of another method than GET that may be carried out twice. */
  repeats?: boolean
  /** It makes a row whose id the edge makes, so that the call may be repeated, unless the body says more than its metadata. */
  makes?: boolean
}

/** Paths of the control plane: its calls need a key and take JSON only, and it is closed to pages of other origins. */
export const CONTROL = /^\/(v[12]|host-oauth-callback)\//
/** Clients of a self-hosted control plane put this in front of its paths (docs/spec/control-plane.md#transport). */
export const CONTROL_PREFIX = '/api-host'

/** Pages of Weft, where a person may enter a key. */
export const PAGES = /^\/(console|docs)(\/|$)|^\/o\/[^/]+\/host\/deployments\//

export interface Route extends Row {
  /** Its place in the table. */
  index: number
  /** Names of the path's parameters, in order. */
  params: string[]
  /** A call of the control plane; its pages for browsers are none. */
  control: boolean
  /** Clients send values of graphs: input, state, items. The bodies of other routes are short. */
  values: boolean
  /** The call may be carried out twice: it is sent again when its worker is silent. */
  repeats: boolean
  /** Its answer lasts as long as a run or longer. */
  long: boolean
  /** The application may switch each of them off. */
  groups: readonly RouteGroup[]
}

const { create, get, join, state } = {
  create: rpc('runs', 'create'),
  get: rpc('runs', 'get'),
  join: rpc('runs', 'join'),
  state: rpc('threads', 'state'),
}

const RUN: readonly AuthEvent[] = ['threads:create_run', 'assistants:read']
/** A command of protocol v2 creates a run or reads the thread. */
const COMMAND: readonly AuthEvent[] = [...RUN, 'threads:read']
/** A reader that leaves with `cancel_on_disconnect` cancels the run; its key then needs what a cancel needs. */
const JOIN: readonly AuthEvent[] = ['threads:read', 'threads:update']
/** To change a provider, or to remove it and to make another one of the same id. */
const PROVIDER: readonly Scope[] = ['deployments', 'oauth']

// biome-ignore format: a table
const ROWS: readonly Row[] = [
  { method: 'GET', path: '/', answer: 'root', subject: '', auth: 'public' },
  { method: 'GET', path: '/ok', answer: 'ok', subject: rpc('system', 'check'), auth: 'public' },
  { method: 'GET', path: '/ready', answer: 'ready', subject: rpc('system', 'ready'), auth: 'public' },
  { method: 'GET', path: '/info', answer: 'info', subject: '', auth: 'public' },
  { method: 'GET', path: '/metrics', answer: 'metrics', subject: rpc('system', 'metrics'), auth: 'public' },
  { method: 'GET', path: '/workers/logs', answer: 'logs', subject: '', auth: 'public' },
  { method: 'GET', path: '/openapi.json', answer: 'openapi', subject: '', auth: 'public' },
  { method: 'GET', path: '/docs', answer: 'docs', subject: '', auth: 'public' },
  { method: 'GET', path: '/docs/:file', answer: 'docs-file', subject: '', auth: 'public' },
  { method: 'GET', path: '/docs/guide', answer: 'guide', subject: '', auth: 'public' },
  { method: 'GET', path: '/docs/guide/:file', answer: 'guide-file', subject: '', auth: 'public' },
  { method: 'GET', path: '/console', answer: 'console', subject: '', auth: 'public' },
  { method: 'GET', path: '/console/:file', answer: 'console-file', subject: '', auth: 'public' },
  { method: 'GET', path: '/o/:tenant_id/host/deployments/:deployment_id', answer: 'console-link', subject: '', auth: 'public' },
  { method: 'POST', path: '/ui/:assistant_id', answer: 'ui', subject: rpc('assistants', 'ui'), auth: ['assistants:read'] },
  { method: 'GET', path: '/ui/:graph_id/:file', answer: 'ui-file', subject: rpc('assistants', 'ui_file'), auth: 'public' },
  { method: 'POST', path: '/internal/truncate', answer: 'json', subject: rpc('system', 'truncate'), auth: 'public', test: true },

  { method: 'POST', path: '/mcp', answer: 'mcp', subject: '', auth: [], scope: 'read' },
  { method: 'DELETE', path: '/mcp', answer: 'mcp', subject: '', auth: 'public' },
  { method: 'POST', path: '/a2a/:assistant_id', answer: 'a2a', subject: '', auth: [], scope: 'read' },
  { method: 'GET', path: '/a2a/:assistant_id/.well-known/agent-card.json', answer: 'agent-card', subject: '', auth: [], scope: 'read' },
  { method: 'GET', path: '/.well-known/agent-card.json', answer: 'agent-card', subject: '', auth: [], scope: 'read' },

  { method: 'POST', path: '/assistants', answer: 'json', subject: rpc('assistants', 'create'), auth: ['assistants:create'] },
  { method: 'POST', path: '/assistants/search', answer: 'json', subject: rpc('assistants', 'search'), repeats: true, auth: ['assistants:search'] },
  { method: 'POST', path: '/assistants/count', answer: 'json', subject: rpc('assistants', 'count'), repeats: true, auth: ['assistants:search'] },
  { method: 'GET', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'get'), auth: ['assistants:read'] },
  { method: 'PATCH', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'update'), auth: ['assistants:update'] },
  { method: 'DELETE', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'delete'), auth: ['assistants:delete', 'threads:delete'], scope: 'assistants' },
  { method: 'GET', path: '/assistants/:assistant_id/graph', answer: 'json', subject: rpc('assistants', 'graph'), auth: ['assistants:read'] },
  { method: 'GET', path: '/assistants/:assistant_id/schemas', answer: 'json', subject: rpc('assistants', 'schemas'), auth: ['assistants:read'] },
  { method: 'GET', path: '/assistants/:assistant_id/subgraphs', answer: 'json', subject: rpc('assistants', 'subgraphs'), auth: ['assistants:read'] },
  { method: 'GET', path: '/assistants/:assistant_id/subgraphs/:namespace', answer: 'json', subject: rpc('assistants', 'subgraphs'), auth: ['assistants:read'] },
  { method: 'POST', path: '/assistants/:assistant_id/versions', answer: 'json', subject: rpc('assistants', 'versions'), repeats: true, auth: ['assistants:read'] },
  { method: 'POST', path: '/assistants/:assistant_id/latest', answer: 'json', subject: rpc('assistants', 'latest'), auth: ['assistants:update'] },

  { method: 'PUT', path: '/store/items', answer: 'json', subject: rpc('items', 'put'), auth: ['store:put'] },
  { method: 'GET', path: '/store/items', answer: 'json', subject: rpc('items', 'get'), auth: ['store:get'] },
  { method: 'DELETE', path: '/store/items', answer: 'json', subject: rpc('items', 'delete'), auth: ['store:delete'] },
  { method: 'POST', path: '/store/items/search', answer: 'json', subject: rpc('items', 'search'), repeats: true, auth: ['store:search'] },
  { method: 'POST', path: '/store/namespaces', answer: 'json', subject: rpc('items', 'namespaces'), repeats: true, auth: ['store:list_namespaces'] },

  { method: 'POST', path: '/threads', answer: 'json', subject: rpc('threads', 'create'), makes: true, auth: ['threads:create'] },
  { method: 'POST', path: '/threads/search', answer: 'json', subject: rpc('threads', 'search'), repeats: true, auth: ['threads:search'] },
  { method: 'POST', path: '/threads/prune', answer: 'json', subject: rpc('threads', 'prune'), auth: ['threads:delete'] },
  { method: 'POST', path: '/threads/count', answer: 'json', subject: rpc('threads', 'count'), repeats: true, auth: ['threads:search'] },
  { method: 'GET', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'get'), auth: ['threads:read'] },
  { method: 'PATCH', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'update'), auth: ['threads:update'] },
  { method: 'DELETE', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'delete'), auth: ['threads:delete'] },
  { method: 'POST', path: '/threads/:thread_id/copy', answer: 'json', subject: rpc('threads', 'copy'), auth: ['threads:read', 'threads:create'] },
  { method: 'GET', path: '/threads/:thread_id/storage', answer: 'json', subject: rpc('threads', 'storage'), auth: ['threads:read'] },
  { method: 'GET', path: '/threads/:thread_id/state', answer: 'json', subject: state, auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/state', answer: 'json', subject: rpc('threads', 'update_state'), auth: ['threads:update'] },
  { method: 'PATCH', path: '/threads/:thread_id/state', answer: 'json', subject: rpc('threads', 'patch_state'), auth: ['threads:update'] },
  { method: 'GET', path: '/threads/:thread_id/state/:checkpoint_id', answer: 'json', subject: state, auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/state/checkpoint', answer: 'json', subject: rpc('threads', 'state_at'), repeats: true, auth: ['threads:read'] },
  { method: 'GET', path: '/threads/:thread_id/history', answer: 'json', subject: rpc('threads', 'history'), auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/history', answer: 'json', subject: rpc('threads', 'search_history'), repeats: true, auth: ['threads:read'] },
  { method: 'GET', path: '/threads/:thread_id/stream', answer: 'join-thread', subject: rpc('threads', 'follow'), auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/commands', answer: 'command', subject: rpc('threads', 'command'), auth: COMMAND },
  { method: 'POST', path: '/threads/:thread_id/stream/events', answer: 'events', subject: rpc('threads', 'filter'), auth: ['threads:read'] },
  { method: 'GET', path: '/threads/:thread_id/stream/events', answer: 'socket', subject: rpc('threads', 'socket_command'), auth: COMMAND },

  { method: 'POST', path: '/threads/:thread_id/runs/crons', answer: 'json', subject: rpc('crons', 'create_for_thread'), auth: ['crons:create', 'assistants:read', 'threads:read'] },
  { method: 'POST', path: '/runs/crons', answer: 'json', subject: rpc('crons', 'create'), auth: ['crons:create', 'assistants:read'] },
  { method: 'POST', path: '/runs/crons/search', answer: 'json', subject: rpc('crons', 'search'), repeats: true, auth: ['crons:search', 'threads:search'] },
  { method: 'POST', path: '/runs/crons/count', answer: 'json', subject: rpc('crons', 'count'), repeats: true, auth: ['crons:search', 'threads:search'] },
  { method: 'GET', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'get'), auth: ['crons:read'] },
  { method: 'GET', path: '/runs/crons/:cron_id/firings', answer: 'json', subject: rpc('crons', 'firings'), auth: ['crons:read'] },
  { method: 'PATCH', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'update'), auth: ['crons:update'] },
  { method: 'DELETE', path: '/runs/crons/:cron_id', answer: 'json', subject: rpc('crons', 'delete'), auth: ['crons:delete'] },

  { method: 'POST', path: '/runs', answer: 'create', subject: create, auth: RUN, mode: 'background' },
  { method: 'POST', path: '/runs/batch', answer: 'create', subject: rpc('runs', 'batch'), auth: RUN, mode: 'background' },
  { method: 'POST', path: '/runs/search', answer: 'json', subject: rpc('runs', 'search'), repeats: true, auth: ['threads:search'] },
  { method: 'POST', path: '/runs/count', answer: 'json', subject: rpc('runs', 'count'), repeats: true, auth: ['threads:search'] },
  { method: 'POST', path: '/runs/cancel', answer: 'json', subject: rpc('runs', 'cancel_many'), auth: ['threads:update'], scope: 'run' },
  { method: 'POST', path: '/runs/stream', answer: 'create', subject: create, auth: RUN, mode: 'stream' },
  { method: 'POST', path: '/runs/wait', answer: 'create', subject: create, auth: RUN, mode: 'wait' },
  { method: 'GET', path: '/runs/:run_id', answer: 'json', subject: get, auth: ['threads:read'] },
  { method: 'GET', path: '/runs/:run_id/stream', answer: 'join-stream', subject: join, auth: JOIN, scope: 'read' },
  { method: 'GET', path: '/runs/:run_id/join', answer: 'join-wait', subject: join, auth: JOIN, scope: 'read' },
  { method: 'GET', path: '/runs/:run_id/execution', answer: 'json', subject: rpc('runs', 'execution'), auth: ['threads:read'] },
  { method: 'GET', path: '/runs/:run_id/spans', answer: 'json', subject: rpc('runs', 'spans'), auth: ['threads:read'] },
  { method: 'GET', path: '/runs/:run_id/webhook', answer: 'json', subject: rpc('runs', 'webhook'), auth: ['threads:read'] },
  { method: 'POST', path: '/runs/:run_id/webhook/repeat', answer: 'json', subject: rpc('runs', 'repeat_webhook'), auth: ['threads:update'], scope: 'run' },

  { method: 'POST', path: '/threads/:thread_id/runs', answer: 'create', subject: create, auth: RUN, mode: 'background' },
  { method: 'GET', path: '/threads/:thread_id/runs', answer: 'json', subject: rpc('runs', 'list'), auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/runs/stream', answer: 'create', subject: create, auth: RUN, mode: 'stream' },
  { method: 'POST', path: '/threads/:thread_id/runs/wait', answer: 'create', subject: create, auth: RUN, mode: 'wait' },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id', answer: 'json', subject: get, auth: ['threads:read'] },
  { method: 'DELETE', path: '/threads/:thread_id/runs/:run_id', answer: 'cancel', subject: rpc('runs', 'delete'), auth: ['threads:delete'] },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/stream', answer: 'join-stream', subject: join, auth: JOIN, scope: 'read' },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/join', answer: 'join-wait', subject: join, auth: JOIN, scope: 'read' },
  { method: 'POST', path: '/threads/:thread_id/runs/:run_id/cancel', answer: 'cancel', subject: rpc('runs', 'cancel'), auth: ['threads:update'], scope: 'run' },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/spans', answer: 'json', subject: rpc('runs', 'spans'), auth: ['threads:read'] },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/webhook', answer: 'json', subject: rpc('runs', 'webhook'), auth: ['threads:read'] },
  { method: 'POST', path: '/threads/:thread_id/runs/:run_id/webhook/repeat', answer: 'json', subject: rpc('runs', 'repeat_webhook'), auth: ['threads:update'], scope: 'run' },

  { method: 'POST', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'create'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'search'), auth: 'control' },
  { method: 'DELETE', path: '/v2/deployments', answer: 'json', subject: rpc('deployments', 'delete_all'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'get'), auth: 'control' },
  { method: 'PATCH', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'update'), auth: 'control' },
  { method: 'DELETE', path: '/v2/deployments/:deployment_id', answer: 'json', subject: rpc('deployments', 'delete'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments/:deployment_id/logs', answer: 'json', subject: rpc('deployments', 'logs'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions', answer: 'json', subject: rpc('revisions', 'search'), auth: 'control' },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions', answer: 'json', subject: rpc('revisions', 'create'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions/:revision_id', answer: 'json', subject: rpc('revisions', 'get'), auth: 'control' },
  { method: 'GET', path: '/v2/deployments/:deployment_id/revisions/:revision_id/logs', answer: 'json', subject: rpc('deployments', 'logs'), auth: 'control' },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions/:revision_id/redeploy', answer: 'json', subject: rpc('revisions', 'redeploy'), auth: 'control' },
  { method: 'POST', path: '/v2/deployments/:deployment_id/revisions/:revision_id/interrupt', answer: 'json', subject: rpc('revisions', 'interrupt'), auth: 'control' },
  { method: 'POST', path: '/v1/projects/:deployment_id/revisions/:revision_id/build_logs', answer: 'json', subject: rpc('deployments', 'build_logs'), auth: 'control' },
  { method: 'POST', path: '/v1/projects/:deployment_id/revisions/:revision_id/deploy_logs', answer: 'json', subject: rpc('deployments', 'deploy_logs'), auth: 'control' },
  { method: 'POST', path: '/v1/projects/:deployment_id/deploy_logs', answer: 'json', subject: rpc('deployments', 'runtime_logs'), auth: 'control' },
  { method: 'POST', path: '/v2/deployments/:deployment_id/upload-url', answer: 'json', subject: rpc('deployments', 'upload_url'), auth: 'control' },
  { method: 'POST', path: '/v2/deployments/:deployment_id/push-token', answer: 'json', subject: rpc('deployments', 'push_token'), auth: 'control' },
  { method: 'PUT', path: '/v2/deployments/:deployment_id/uploads/:upload_id', answer: 'upload', subject: rpc('deployments', 'upload_begin'), auth: 'signed' },
  { method: 'GET', path: '/v2/listeners', answer: 'json', subject: rpc('deployments', 'listeners'), auth: 'control' },
  { method: 'GET', path: '/v2/listeners/:listener_id', answer: 'json', subject: rpc('deployments', 'listener'), auth: 'control' },
  { method: 'POST', path: '/v1/integrations/github/webhook', answer: 'push', subject: rpc('deployments', 'github_push'), auth: 'signed' },
  { method: 'POST', path: '/v1/integrations/gitlab/webhook', answer: 'push', subject: rpc('deployments', 'gitlab_push'), auth: 'signed' },

  { method: 'POST', path: '/v2/keys', answer: 'json', subject: rpc('keys', 'create'), auth: 'control', scope: 'admin' },
  { method: 'GET', path: '/v2/keys', answer: 'json', subject: rpc('keys', 'list'), auth: 'control', scope: 'admin' },
  { method: 'DELETE', path: '/v2/keys/:key_id', answer: 'json', subject: rpc('keys', 'revoke'), auth: 'control', scope: 'admin' },

  // The `token_url` of a provider receives refresh tokens and its client secret.
  { method: 'POST', path: '/v2/auth/providers', answer: 'json', subject: rpc('providers', 'create'), auth: 'control', scope: PROVIDER },
  { method: 'GET', path: '/v2/auth/providers', answer: 'json', subject: rpc('providers', 'search'), auth: 'control' },
  { method: 'GET', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'get'), auth: 'control' },
  { method: 'PATCH', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'update'), auth: 'control', scope: PROVIDER },
  { method: 'DELETE', path: '/v2/auth/providers/:provider_id', answer: 'json', subject: rpc('providers', 'delete'), auth: 'control', scope: PROVIDER },
  { method: 'POST', path: '/v2/auth/providers/mcp-discover', answer: 'json', subject: rpc('oauth', 'discover'), auth: 'control', scope: PROVIDER },

  { method: 'POST', path: '/v2/auth/authenticate', answer: 'json', subject: rpc('oauth', 'authenticate'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/v2/auth/wait/:auth_id', answer: 'oauth-wait', subject: rpc('oauth', 'peek'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/v2/auth/start/:auth_id', answer: 'oauth-start', subject: rpc('oauth', 'start'), auth: 'public' },
  { method: 'GET', path: '/v2/auth/callback/:provider_id', answer: 'oauth-callback', subject: rpc('oauth', 'callback'), auth: 'public' },
  { method: 'POST', path: '/v2/auth/callback/:provider_id', answer: 'json', subject: rpc('oauth', 'finalize'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/host-oauth-callback/:provider_id', answer: 'oauth-callback', subject: rpc('oauth', 'callback'), auth: 'public' },
  { method: 'GET', path: '/v2/auth/setup/:provider_id', answer: 'oauth-callback', subject: rpc('oauth', 'callback'), auth: 'public' },
  { method: 'GET', path: '/v2/auth/tokens', answer: 'json', subject: rpc('oauth', 'tokens'), auth: 'control', scope: 'oauth' },
  { method: 'DELETE', path: '/v2/auth/tokens', answer: 'json', subject: rpc('oauth', 'delete_tokens'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/v2/auth/tokens/exists', answer: 'json', subject: rpc('oauth', 'tokens_exist'), auth: 'control', scope: 'oauth' },
  { method: 'POST', path: '/v2/auth/tokens/import', answer: 'json', subject: rpc('oauth', 'import_token'), auth: 'control', scope: 'oauth' },
  { method: 'DELETE', path: '/v2/auth/tokens/:token_id', answer: 'json', subject: rpc('oauth', 'delete_token'), auth: 'control', scope: 'oauth' },
  { method: 'PATCH', path: '/v2/auth/tokens/:token_id/metadata', answer: 'json', subject: rpc('oauth', 'update_token'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/v2/auth/token-events', answer: 'json', subject: rpc('oauth', 'events'), auth: 'control', scope: 'oauth' },
  { method: 'GET', path: '/v2/auth/agents/:agent_id/connections', answer: 'json', subject: rpc('oauth', 'connections'), auth: 'control', scope: 'oauth' },
  { method: 'POST', path: '/v2/auth/agents/:agent_id/connections', answer: 'json', subject: rpc('oauth', 'connect'), auth: 'control', scope: 'oauth' },
  { method: 'DELETE', path: '/v2/auth/agents/:agent_id/connections/:connection_id', answer: 'json', subject: rpc('oauth', 'disconnect'), auth: 'control', scope: 'oauth' },
]

const GROUPS: readonly [path: RegExp, groups: readonly RouteGroup[]][] = [
  [/^\/(threads\/[^/]+\/)?runs\/crons(\/|$)/, ['runs', 'crons']],
  [/^\/runs(\/|$)|^\/threads\/[^/]+\/(runs|stream|commands)(\/|$)/, ['runs']],
  [/^\/threads(\/|$)/, ['threads']],
  [/^\/assistants(\/|$)/, ['assistants']],
  [/^\/store\//, ['store']],
  [/^\/(info|metrics|docs|console|openapi\.json)?$|^\/(docs|console|o)\//, ['meta']],
  [/^\/mcp\/?$/, ['mcp']],
  [/^\/a2a\/|^\/\.well-known\/agent-card\.json$/, ['a2a']],
  [/^\/ui\//, ['ui']],
]

/** Routes that take values, beside those that create a run. */
const VALUES: ReadonlySet<string> = new Set(['POST /threads', 'POST /threads/:thread_id/state', 'PUT /store/items'])

export const ROUTES: readonly Route[] = ROWS.map((row, index) => ({
  ...row,
  index,
  params: [...row.path.matchAll(/:(\w+)/g)].map(([, name]) => name!),
  control: row.auth === 'control' || row.auth === 'signed',
  values: row.answer === 'create' || row.answer === 'command' || VALUES.has(`${row.method} ${row.path}`),
  repeats: row.repeats ?? row.method === 'GET',
  long: isLong(row),
  groups: groupsOf(row.path),
}))

function isLong({ method, answer, mode }: Row): boolean {
  return (
    answer.startsWith('join') ||
    answer === 'events' ||
    answer === 'oauth-wait' ||
    (answer === 'mcp' && method === 'POST') ||
    mode === 'stream' ||
    mode === 'wait'
  )
}

/** docs/spec/application.md#keys-of-http. Streams and commands of a thread belong to its runs. */
function groupsOf(path: string): readonly RouteGroup[] {
  const found = GROUPS.find(([pattern]) => pattern.test(path))
  return found === undefined ? [] : found[1]
}
