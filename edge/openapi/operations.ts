/** Bodies and answers of each route, for the OpenAPI document: one row per route of the route table. */
import type { BodyName } from '../../schemas/openapi.js'
import type { Route } from '../routes.js'

export interface Operation {
  summary: string
  /** The body of the request: JSON, or media types of another one; absent: none. `optional`: it may be empty. */
  body?: BodyName | { types: readonly string[] }
  optional?: true
  /** The answer 200: a body in JSON, media types of another one, or null for 204 without a body. */
  answer: BodyName | { types: readonly string[] } | null
  /** The status of an answer that is not 200 or 204. */
  status?: number
  /** Another status without a body. */
  also?: number
  query?: readonly QueryName[]
  /** The body of errors, where it is not ErrorBody: another one, or media types. */
  error?: BodyName | { types: readonly string[] }
}

const PAGE_FOR_BROWSERS = { types: ['text/html'] }
/** JSON where the request is refused before it reaches the page. */
const ERRORS_OF_PAGES = { types: ['text/html', 'application/json'] }
const STREAM = { types: ['text/event-stream'] }

/** Every query parameter and its schema. */
export const QUERY = {
  action: { enum: ['interrupt', 'rollback'] },
  assistant_id: { type: 'string' },
  before: { type: 'string' },
  cancel_on_disconnect: { type: 'boolean' },
  checkpoint_id: { type: 'string' },
  check_db: { enum: ['0', '1', 'false', 'true'] },
  self: { enum: ['0', '1', 'false', 'true'] },
  code: { type: 'string' },
  delete_threads: { type: 'boolean' },
  expires: { type: 'integer' },
  signature: { type: 'string' },
  error: { type: 'string' },
  error_description: { type: 'string' },
  force: { type: 'boolean' },
  format: { enum: ['prometheus', 'json'] },
  include: { enum: ['ttl'] },
  key: { type: 'string' },
  last_event_id: { type: 'string' },
  level: { enum: ['debug', 'info', 'warn', 'error'] },
  limit: { type: 'integer', minimum: 1, maximum: 1000 },
  metadata: { type: 'string' },
  namespace: { type: 'string' },
  offset: { type: 'integer', minimum: 0 },
  pool: { type: 'string' },
  provider_id: { type: 'string' },
  recurse: { type: 'boolean' },
  refresh_ttl: { type: 'boolean' },
  run_id: { type: 'string' },
  select: { type: 'array', items: { type: 'string' } },
  state: { type: 'string' },
  status: { type: 'array', items: { type: 'string' } },
  stream_mode: { type: 'array', items: { type: 'string' } },
  subgraphs: { type: 'boolean' },
  text: { type: 'string' },
  timeout: { type: 'integer', minimum: 0 },
  user_id: { type: 'string' },
  wait: { type: 'boolean' },
  worker: { type: 'string' },
  xray: { type: ['boolean', 'integer'] },
} as const satisfies { [name: string]: object }
export type QueryName = keyof typeof QUERY

const PAGE = ['limit', 'offset'] as const
const CALLBACK = ['code', 'state', 'error', 'error_description'] as const
const OF_USER = ['provider_id', 'user_id'] as const

// biome-ignore format: a table
const OPERATIONS: { readonly [route: string]: Operation } = {
  'GET /': { summary: 'Health', answer: 'Ok' },
  'GET /ok': { summary: 'Health; with check_db=1 also of the store', answer: 'Ok', query: ['check_db'] },
  'GET /ready': { summary: 'Readiness: broker, store and a graph worker; with self=1 of this edge alone', answer: 'Ok', query: ['self'] },
  'GET /info': { summary: 'Versions and flags', answer: 'Info' },
  'GET /metrics': { summary: 'Metrics of the edge and of all workers', answer: { types: ['text/plain', 'application/json'] }, query: ['format'] },
  'GET /workers/logs': { summary: 'The newest log lines of graph workers and their hosts', answer: 'LogLines', query: ['run_id', 'text', 'level', 'worker', 'pool', 'limit'] },
  'POST /mcp': { summary: 'One message of MCP (JSON-RPC 2.0): assistants as tools', body: 'Object', answer: 'Object', also: 202, error: 'Object' },
  'DELETE /mcp': { summary: 'There are no sessions: 404', answer: null },
  'POST /a2a/:assistant_id': { summary: 'One request of A2A (JSON-RPC 2.0): the assistant as an agent', body: 'Object', answer: { types: ['application/json', 'text/event-stream'] }, error: 'Object' },
  'GET /a2a/:assistant_id/.well-known/agent-card.json': { summary: 'The card of the agent', answer: 'Object' },
  'GET /.well-known/agent-card.json': { summary: 'The card of an agent', answer: 'Object', query: ['assistant_id'] },
  'GET /openapi.json': { summary: 'This document', answer: 'Object' },
  'GET /docs': { summary: 'This document, for readers', answer: { types: ['text/html'] } },
  'GET /console': { summary: 'The console', answer: { types: ['text/html'] } },
  'GET /o/:tenant_id/host/deployments/:deployment_id': { summary: 'To a deployment in the console', answer: null, status: 303 },
  'GET /console/:file': { summary: 'The files of that page', answer: { types: ['text/javascript', 'text/css', 'font/woff2'] } },
  'GET /docs/:file': { summary: 'The files of that page', answer: { types: ['text/javascript', 'text/css'] } },
  'GET /docs/guide': { summary: 'To the first page of the guide', answer: null, status: 303 },
  'GET /docs/guide/:file': { summary: 'The pages of the guide and their files', answer: { types: ['text/html', 'text/css', 'text/javascript', 'text/markdown', 'text/plain', 'application/json', 'image/svg+xml', 'font/woff2'] } },
  'POST /ui/:assistant_id': { summary: 'The elements that load a component', body: 'ComponentName', answer: { types: ['text/html'] } },
  'GET /ui/:graph_id/:file': { summary: 'A file of a component', answer: { types: ['text/javascript', 'text/css', 'image/*', 'font/*'] } },
  'POST /internal/truncate': { summary: 'Empties the store (tests only)', body: 'Truncate', answer: null },

  'POST /assistants': { summary: 'Create an assistant', body: 'AssistantCreate', answer: 'Assistant' },
  'POST /assistants/search': { summary: 'Search assistants', body: 'AssistantSearch', optional: true, answer: 'AssistantsFound' },
  'POST /assistants/count': { summary: 'Count assistants', body: 'AssistantCount', optional: true, answer: 'Count' },
  'GET /assistants/:assistant_id': { summary: 'Get an assistant', answer: 'Assistant' },
  'PATCH /assistants/:assistant_id': { summary: 'Change an assistant: a new version', body: 'AssistantPatch', answer: 'Assistant' },
  'DELETE /assistants/:assistant_id': { summary: 'Delete an assistant', answer: null, query: ['delete_threads'] },
  'GET /assistants/:assistant_id/graph': { summary: 'Draw the graph', answer: 'GraphDrawing', query: ['xray'] },
  'GET /assistants/:assistant_id/schemas': { summary: 'JSON Schemas of the graph', answer: 'GraphSchemas' },
  'GET /assistants/:assistant_id/subgraphs': { summary: 'List subgraphs', answer: 'Object', query: ['recurse'] },
  'GET /assistants/:assistant_id/subgraphs/:namespace': { summary: 'List subgraphs at a path', answer: 'Object', query: ['recurse'] },
  'POST /assistants/:assistant_id/versions': { summary: 'List versions', body: 'VersionSearch', optional: true, answer: 'Assistants' },
  'POST /assistants/:assistant_id/latest': { summary: 'Make a version the active one', body: 'LatestVersion', answer: 'Assistant' },

  'PUT /store/items': { summary: 'Write an item', body: 'ItemPut', answer: null },
  'GET /store/items': { summary: 'Read an item', answer: 'Item', query: ['namespace', 'key', 'refresh_ttl'] },
  'DELETE /store/items': { summary: 'Delete an item', body: 'ItemRef', answer: null },
  'POST /store/items/search': { summary: 'Search items', body: 'ItemSearch', optional: true, answer: 'Items' },
  'POST /store/namespaces': { summary: 'List namespaces', body: 'NamespaceSearch', optional: true, answer: 'Namespaces' },

  'POST /threads': { summary: 'Create a thread', body: 'ThreadCreate', optional: true, answer: 'Thread' },
  'POST /threads/search': { summary: 'Search threads', body: 'ThreadSearch', optional: true, answer: 'ThreadsFound' },
  'POST /threads/prune': { summary: 'Delete threads, or their older checkpoints', body: 'ThreadPrune', answer: 'Object' },
  'POST /threads/count': { summary: 'Count threads', body: 'ThreadFilter', optional: true, answer: 'Count' },
  'GET /threads/:thread_id': { summary: 'Get a thread', answer: 'Thread', query: ['include'] },
  'PATCH /threads/:thread_id': { summary: 'Change metadata and time to live', body: 'ThreadPatch', answer: 'Thread' },
  'DELETE /threads/:thread_id': { summary: 'Delete a thread', answer: null },
  'POST /threads/:thread_id/copy': { summary: 'Copy a thread', body: 'Object', optional: true, answer: 'Thread' },
  'GET /threads/:thread_id/storage': { summary: 'Stored bytes of a thread', answer: 'Object' },
  'GET /threads/:thread_id/state': { summary: 'Get the state', answer: 'ThreadState', query: ['select', 'subgraphs'] },
  'POST /threads/:thread_id/state': { summary: 'Update the state', body: 'StateUpdate', answer: 'Object' },
  'PATCH /threads/:thread_id/state': { summary: 'Change the metadata of the thread', body: 'StateMetadata', answer: null },
  'GET /threads/:thread_id/state/:checkpoint_id': { summary: 'Get the state at a checkpoint', answer: 'ThreadState', query: ['select', 'subgraphs'] },
  'POST /threads/:thread_id/state/checkpoint': { summary: 'Get the state at a checkpoint, also of a subgraph', body: 'StateAt', answer: 'ThreadState' },
  'GET /threads/:thread_id/history': { summary: 'List states, newest first', answer: 'ThreadStates', query: ['limit', 'before', 'select'] },
  'POST /threads/:thread_id/history': { summary: 'List states with filters', body: 'HistoryQuery', optional: true, answer: 'ThreadStates' },
  'GET /threads/:thread_id/stream': { summary: 'Stream all runs of a thread', answer: STREAM, query: ['stream_mode', 'last_event_id'] },
  'POST /threads/:thread_id/commands': { summary: 'Protocol v2: one command', body: 'Command', answer: 'Object', error: 'Object' },
  'POST /threads/:thread_id/stream/events': { summary: 'Protocol v2: a filtered event stream', body: 'EventsRequest', answer: STREAM },
  'GET /threads/:thread_id/stream/events': { summary: 'Protocol v2: a WebSocket', answer: null, status: 101 },

  'POST /threads/:thread_id/runs/crons': { summary: 'Create a cron of a thread', body: 'ThreadCronCreate', answer: 'Cron' },
  'POST /runs/crons': { summary: 'Create a cron', body: 'CronCreate', answer: 'Cron' },
  'POST /runs/crons/search': { summary: 'Search crons', body: 'CronSearch', optional: true, answer: 'CronsFound' },
  'POST /runs/crons/count': { summary: 'Count crons', body: 'CronCount', optional: true, answer: 'Count' },
  'GET /runs/crons/:cron_id': { summary: 'Get a cron', answer: 'Cron' },
  'GET /runs/crons/:cron_id/firings': { summary: 'List the latest firings of a cron', answer: 'CronFirings' },
  'PATCH /runs/crons/:cron_id': { summary: 'Change a cron', body: 'CronPatch', answer: 'Cron' },
  'DELETE /runs/crons/:cron_id': { summary: 'Delete a cron', answer: null },

  'POST /runs': { summary: 'Create a run without a thread', body: 'RunCreate', answer: 'Run' },
  'POST /runs/batch': { summary: 'Create several runs', body: 'RunBatch', answer: 'Runs' },
  'POST /runs/search': { summary: 'Search runs, with and without a thread', body: 'RunSearch', optional: true, answer: 'RunsFound' },
  'POST /runs/count': { summary: 'Count runs', body: 'RunFilter', optional: true, answer: 'Count' },
  'POST /runs/cancel': { summary: 'Cancel runs', body: 'RunsCancel', answer: null, query: ['action'] },
  'POST /runs/stream': { summary: 'Create a run without a thread and stream it', body: 'RunCreate', answer: STREAM },
  'POST /runs/wait': { summary: 'Create a run without a thread and wait for its result', body: 'RunCreate', answer: 'Any' },
  'GET /runs/:run_id': { summary: 'Get a run', answer: 'Run' },
  'GET /runs/:run_id/stream': { summary: 'Join the stream of a run', answer: STREAM, query: ['stream_mode', 'namespace', 'cancel_on_disconnect', 'last_event_id', 'checkpoint_id'] },
  'GET /runs/:run_id/join': { summary: 'Wait for the result of a run', answer: 'Any', query: ['cancel_on_disconnect'] },
  'GET /runs/:run_id/execution': { summary: 'Get where and when a run executed', answer: 'RunExecution' },
  'GET /runs/:run_id/spans': { summary: 'List the recorded parts of a run', answer: 'RunSpans' },
  'GET /runs/:run_id/webhook': { summary: 'List the deliveries of the webhook of a run', answer: 'WebhookDeliveries' },
  'POST /runs/:run_id/webhook/repeat': { summary: 'Deliver the webhook of a run again', answer: 'WebhookDeliveries', status: 202 },
  'POST /threads/:thread_id/runs': { summary: 'Create a run', body: 'RunCreate', answer: 'Run' },
  'GET /threads/:thread_id/runs': { summary: 'List runs', answer: 'RunsFound', query: [...PAGE, 'status', 'select', 'metadata'] },
  'POST /threads/:thread_id/runs/stream': { summary: 'Create a run and stream it', body: 'RunCreate', answer: STREAM },
  'POST /threads/:thread_id/runs/wait': { summary: 'Create a run and wait for its result', body: 'RunCreate', answer: 'Any' },
  'GET /threads/:thread_id/runs/:run_id': { summary: 'Get a run', answer: 'Run' },
  'DELETE /threads/:thread_id/runs/:run_id': { summary: 'Delete a run', answer: null, query: ['force'] },
  'GET /threads/:thread_id/runs/:run_id/stream': { summary: 'Join the stream of a run', answer: STREAM, query: ['stream_mode', 'namespace', 'cancel_on_disconnect', 'last_event_id', 'checkpoint_id'] },
  'GET /threads/:thread_id/runs/:run_id/join': { summary: 'Wait for the result of a run', answer: 'Any', query: ['cancel_on_disconnect'] },
  'POST /threads/:thread_id/runs/:run_id/cancel': { summary: 'Cancel a run', answer: null, also: 202, query: ['wait', 'action'] },
  'GET /threads/:thread_id/runs/:run_id/spans': { summary: 'List the recorded parts of a run', answer: 'RunSpans' },
  'GET /threads/:thread_id/runs/:run_id/webhook': { summary: 'List the deliveries of the webhook of a run', answer: 'WebhookDeliveries' },
  'POST /threads/:thread_id/runs/:run_id/webhook/repeat': { summary: 'Deliver the webhook of a run again', answer: 'WebhookDeliveries', status: 202 },

  'POST /v2/deployments': { summary: 'Create a deployment', body: 'DeploymentCreate', answer: 'Deployment', status: 201 },
  'GET /v2/deployments': { summary: 'List deployments', answer: 'Deployments', query: PAGE },
  'DELETE /v2/deployments': { summary: 'Delete all deployments', answer: null },
  'GET /v2/deployments/:deployment_id': { summary: 'Get a deployment', answer: 'Deployment' },
  'PATCH /v2/deployments/:deployment_id': { summary: 'Change a deployment', body: 'DeploymentPatch', answer: 'Deployment' },
  'DELETE /v2/deployments/:deployment_id': { summary: 'Delete a deployment', answer: null },
  'GET /v2/deployments/:deployment_id/logs': { summary: 'Logs of a deployment', answer: 'Object' },
  'GET /v2/deployments/:deployment_id/revisions': { summary: 'List revisions', answer: 'Revisions', query: PAGE },
  'POST /v2/deployments/:deployment_id/revisions': { summary: 'Create a revision', body: 'DeploymentPatch', answer: 'Revision', status: 201 },
  'GET /v2/deployments/:deployment_id/revisions/:revision_id': { summary: 'Get a revision', answer: 'Revision' },
  'GET /v2/deployments/:deployment_id/revisions/:revision_id/logs': { summary: 'Logs of a revision', answer: 'Object' },
  'POST /v2/deployments/:deployment_id/revisions/:revision_id/redeploy': { summary: 'Deploy a revision again', answer: 'Revision', status: 201 },
  'POST /v2/deployments/:deployment_id/revisions/:revision_id/interrupt': { summary: 'Stop a rollout', answer: 'Any' },
  'POST /v1/projects/:deployment_id/revisions/:revision_id/build_logs': { summary: 'Lines of the build', body: 'LogQuery', answer: 'Object' },
  'POST /v1/projects/:deployment_id/revisions/:revision_id/deploy_logs': { summary: 'Lines of the deploy', body: 'LogQuery', answer: 'Object' },
  'POST /v2/deployments/:deployment_id/upload-url': { summary: 'Get the address to which the source of a deployment is uploaded', answer: 'Object' },
  'POST /v2/deployments/:deployment_id/push-token': { summary: 'Ask for the token of a registry of the server, which is always refused: there is none', answer: 'Object' },
  'PUT /v2/deployments/:deployment_id/uploads/:upload_id': { summary: 'Upload the source of a deployment, a gzipped tar archive', body: { types: ['application/octet-stream'] }, answer: 'Object', query: ['expires', 'signature'] },
  'GET /v2/listeners': { summary: 'List listeners: there are none', answer: 'Object', query: PAGE },
  'GET /v2/listeners/:listener_id': { summary: 'Get a listener: there are none', answer: 'Object' },
  'POST /v1/projects/:deployment_id/deploy_logs': { summary: 'Lines of the running deployment', body: 'LogQuery', answer: 'Object' },
  'POST /v1/integrations/github/webhook': { summary: 'A push to a repository on GitHub', body: 'Object', answer: 'Object' },
  'POST /v1/integrations/gitlab/webhook': { summary: 'A push to a repository on GitLab', body: 'Object', answer: 'Object' },
  'POST /v2/keys': { summary: 'Create a key; the answer shows it once', body: 'KeyCreate', answer: 'KeyCreated', status: 201 },
  'GET /v2/keys': { summary: 'List keys', answer: 'Keys', query: PAGE },
  'DELETE /v2/keys/:key_id': { summary: 'Revoke a key', answer: 'KeyRevoked' },
  'POST /v2/auth/providers': { summary: 'Create an OAuth provider', body: 'ProviderCreate', answer: 'Provider', status: 201 },
  'GET /v2/auth/providers': { summary: 'List OAuth providers', answer: 'Providers' },
  'GET /v2/auth/providers/:provider_id': { summary: 'Get an OAuth provider', answer: 'Provider' },
  'PATCH /v2/auth/providers/:provider_id': { summary: 'Change an OAuth provider', body: 'ProviderPatch', answer: 'Provider' },
  'DELETE /v2/auth/providers/:provider_id': { summary: 'Delete an OAuth provider and its tokens', answer: 'Message' },
  'POST /v2/auth/providers/mcp-discover': { summary: 'Create an OAuth provider from the address of an MCP server', body: 'McpDiscover', answer: 'Provider' },
  'POST /v2/auth/authenticate': { summary: 'Get the token of a user, or where the user gives consent', body: 'Authenticate', answer: 'Authenticated' },
  'GET /v2/auth/wait/:auth_id': { summary: 'Wait for the consent of a user', answer: 'Waited', query: ['timeout'] },
  'GET /v2/auth/start/:auth_id': { summary: 'For browsers: the way to the provider', answer: null, status: 303, query: ['state'], error: ERRORS_OF_PAGES },
  'GET /v2/auth/callback/:provider_id': { summary: 'For browsers: the way back from the provider', answer: PAGE_FOR_BROWSERS, query: CALLBACK, error: ERRORS_OF_PAGES },
  'GET /host-oauth-callback/:provider_id': { summary: 'The same under another address', answer: PAGE_FOR_BROWSERS, query: CALLBACK, error: ERRORS_OF_PAGES },
  'GET /v2/auth/setup/:provider_id': { summary: 'The same after the installation of a GitHub App', answer: PAGE_FOR_BROWSERS, query: CALLBACK, error: ERRORS_OF_PAGES },
  'POST /v2/auth/callback/:provider_id': { summary: 'What the provider sent to a page of others', body: 'CallbackPost', answer: 'CallbackDone' },
  'GET /v2/auth/tokens': { summary: 'List stored tokens, without the tokens themselves', answer: 'TokenSummaries', query: OF_USER },
  'DELETE /v2/auth/tokens': { summary: 'Revoke and delete the tokens of a provider', answer: 'TokensDeleted', query: OF_USER },
  'GET /v2/auth/tokens/exists': { summary: 'Whether a token of a provider is stored', answer: 'TokenExists', query: OF_USER },
  'POST /v2/auth/tokens/import': { summary: 'Store a token that was obtained elsewhere', body: 'TokenImport', answer: 'TokenRef' },
  'DELETE /v2/auth/tokens/:token_id': { summary: 'Revoke and delete a token', answer: null },
  'PATCH /v2/auth/tokens/:token_id/metadata': { summary: 'Change the label of a token, or make it the default', body: 'TokenPatch', answer: 'TokenSummary' },
  'GET /v2/auth/token-events': { summary: 'List what happened to tokens', answer: 'TokenEvents', query: PAGE },
  'GET /v2/auth/agents/:agent_id/connections': { summary: 'List the connections of an agent', answer: 'Connections' },
  'POST /v2/auth/agents/:agent_id/connections': { summary: 'Let an agent use a token', body: 'ConnectionCreate', answer: 'Connection', status: 201 },
  'DELETE /v2/auth/agents/:agent_id/connections/:connection_id': { summary: 'Remove a connection of an agent', answer: null },
}

/** The row of a route; null when it has none, which a test refuses. */
export function operationOf({ method, path }: Pick<Route, 'method' | 'path'>): Operation | null {
  const name = `${method} ${path}`
  return Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name]! : null
}

/** The names of all rows. */
export const operationNames = (): string[] => Object.keys(OPERATIONS)
