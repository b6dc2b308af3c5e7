/** Routes and fields of the official document that no other family sends. */
import { type Call, type Case, get, post, STORED, thread, wait } from '../case.js'

const YEARLY = { assistant_id: 'echo', schedule: '0 0 1 1 *' }
const cron = (body: object): Call =>
  post('/runs/crons', { ...YEARLY, ...body }, { save: { cron: 'cron_id' }, silent: true })
const remove: Call = { call: 'DELETE /runs/crons/{cron}', silent: true }
const RUN = '/threads/{thread}/runs/{run}'
const settled: Call = { ...get(RUN, { until: 'settled' }), silent: true }
const begin = (body: object = {}): readonly Call[] => [
  thread(),
  post(
    '/threads/{thread}/runs',
    { assistant_id: 'counter', input: { steps: 2 }, ...body },
    { save: { run: 'run_id' } },
  ),
  settled,
]

const OF_BATCH: { readonly [name: string]: object } = {
  command: { command: { update: { text: 'x' } } },
  metadata: { metadata: { of: 'batch' } },
  config: { config: { tags: ['a'], recursion_limit: 9 } },
  context: { context: { model: 'm' } },
  webhook: { webhook: 'https://example.com/hook' },
  'stream mode': { stream_mode: ['values', 'updates'], stream_subgraphs: true, stream_resumable: true },
  completion: { on_completion: 'keep', durability: 'async', after_seconds: 0 },
  'checkpoint during': { checkpoint_during: false },
}

const CRON_CHANGES: { readonly [name: string]: object } = {
  timezone: { timezone: 'Europe/Berlin' },
  config: { config: { configurable: { model: 'm' } } },
  context: { context: { model: 'm' } },
  webhook: { webhook: 'https://example.com/hook' },
  interrupts: { interrupt_before: ['node'], interrupt_after: '*' },
  'on completion': { on_run_completed: 'keep' },
  'stream mode': { stream_mode: 'updates', stream_subgraphs: true, stream_resumable: true, durability: 'exit' },
}

const rpc = (method: string, params?: object): object => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  ...(params === undefined ? {} : { params }),
})
const MCP = { accept: 'application/json, text/event-stream' }
const mcp = (method: string, params?: object): Call => post('/mcp', rpc(method, params), { headers: MCP })
const a2a = (method: string, params?: object): Call => post('/a2a/{assistant}', rpc(method, params))
const MESSAGE = { role: 'user', kind: 'message', messageId: 'm1', parts: [{ kind: 'text', text: 'hi' }] }

export const routes: readonly Case[] = [
  ...Object.entries(OF_BATCH).map(([name, fields]) => ({
    name: `batch/${name}`,
    calls: [post('/runs/batch', [{ assistant_id: 'echo', input: {}, ...fields }])],
  })),
  ...Object.entries(CRON_CHANGES).map(([name, body]) => ({
    name: `crons/change ${name}`,
    language: 'python' as const,
    calls: [cron({}), { call: 'PATCH /runs/crons/{cron}', body }, get('/runs/crons/{cron}'), remove],
  })),
  {
    name: 'crons/metadata',
    language: 'python',
    calls: [
      cron({ metadata: { for: '{case}', n: 1 } }),
      ...[{ for: '{case}' }, { for: '{case}', n: 2 }, { n: null }].flatMap(metadata => [
        post('/runs/crons/search', { metadata }),
        post('/runs/crons/count', { metadata }),
      ]),
      remove,
    ],
  },
  {
    name: 'crons/multitask strategy',
    language: 'python',
    calls: [
      thread(),
      post('/threads/{thread}/runs/crons', { ...YEARLY, multitask_strategy: 'reject' }, { save: { cron: 'cron_id' } }),
      remove,
    ],
  },
  {
    name: 'items/refresh_ttl',
    calls: [
      { call: 'PUT /store/items', body: { namespace: ['refresh'], key: 'k', value: { a: 1 }, ttl: 5 }, silent: true },
      get('/store/items?namespace=refresh&key=k&refresh_ttl=true'),
      get('/store/items?namespace=refresh&key=k&refresh_ttl=false'),
      get('/store/items?namespace=refresh&key=k&refresh_ttl=maybe'),
      post('/store/items/search', { namespace_prefix: ['refresh'], refresh_ttl: false }),
      post('/store/items/search', { namespace_prefix: ['refresh'], refresh_ttl: true }),
    ],
  },
  ...['', '?check_db=0', '?check_db=1', '?check_db=false', '?check_db=x'].map(query => ({
    name: `system/ok${query}`,
    calls: [get(`/ok${query}`)],
  })),
  { name: 'system/docs', calls: [get('/docs', { silent: true }), get('/openapi.json', { silent: true })] },
  {
    name: 'runs/checkpoint',
    calls: [
      thread(),
      wait('counter', { input: { steps: 2 } }),
      post('/threads/{thread}/history', { limit: 9 }, { save: { checkpoint: '1.checkpoint.checkpoint_id' } }),
      post(
        '/threads/{thread}/runs',
        { assistant_id: 'counter', input: null, checkpoint: { checkpoint_id: '{checkpoint}', checkpoint_ns: '' } },
        { save: { run: 'run_id' } },
      ),
      settled,
      get(RUN),
      ...STORED,
    ],
  },
  {
    name: 'runs/command',
    calls: [
      thread(),
      wait('ask', { input: {} }),
      post('/threads/{thread}/runs', { assistant_id: 'ask', command: { resume: 'yes' } }, { save: { run: 'run_id' } }),
      settled,
      get(`${RUN}/join`),
      ...STORED,
    ],
  },
  {
    name: 'runs/join',
    calls: [
      ...begin(),
      get(`${RUN}/join?cancel_on_disconnect=true`),
      get(`${RUN}/join?cancel_on_disconnect=false`),
      get(`${RUN}/join?cancel_on_disconnect=x`),
    ],
  },
  {
    name: 'runs/cancel action',
    alone: true,
    calls: ['interrupt', 'rollback', 'absent'].flatMap(action => [
      ...begin(),
      post(`/runs/cancel?action=${action}`, { thread_id: '{thread}', run_ids: ['{run}'] }),
      get('/threads/{thread}/runs'),
    ]),
  },
  {
    name: 'runs/state by checkpoint',
    calls: [
      thread(),
      wait('outer', { input: { steps: 1 } }),
      post('/threads/{thread}/history', { limit: 9 }, { save: { checkpoint: '1.checkpoint.checkpoint_id' } }),
      get('/threads/{thread}/state/{checkpoint}?subgraphs=true'),
      get('/threads/{thread}/state/{checkpoint}?subgraphs=false'),
      post('/threads/{thread}/state/checkpoint', {
        checkpoint: { thread_id: '{thread}', checkpoint_id: '{checkpoint}', checkpoint_ns: '' },
        subgraphs: true,
      }),
    ],
  },
  {
    name: 'assistants/recurse',
    calls: [
      get('/assistants/outer/subgraphs/inner?recurse=true'),
      get('/assistants/outer/graph?xray=1'),
      get('/assistants/outer/graph?xray=false'),
    ],
  },
  { name: 'mcp/other methods', calls: [get('/mcp'), { call: 'DELETE /mcp' }] },
  {
    name: 'mcp/calls',
    calls: [
      mcp('initialize', {
        protocolVersion: '2025-03-26',
        capabilities: {},
        clientInfo: { name: 'compare', version: '1' },
      }),
      mcp('ping'),
      mcp('absent'),
      mcp('tools/call', { name: 'absent', arguments: {} }),
    ],
  },
  {
    name: 'a2a/calls',
    calls: [
      post('/assistants/search', { graph_id: 'chat' }, { save: { assistant: '0.assistant_id' }, silent: true }),
      a2a('tasks/get', { id: '8d6f1e9a-2b3c-4d5e-8f90-0123456789ab' }),
      a2a('absent'),
      a2a('message/send', { message: MESSAGE }),
    ],
  },
]
