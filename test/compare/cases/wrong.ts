/** Wrong input: each field of each endpoint with values of other kinds, and ids in other spellings. */
import { type Call, type Case, post, thread } from '../case.js'

const WRONG: { readonly [name: string]: unknown } = {
  null: null,
  text: 'wrong',
  'empty text': '',
  negative: -1,
  fraction: 1.5,
  large: 1e9,
  boolean: true,
  list: [1],
  'list of null': [null],
  object: { wrong: 1 },
}

const ABSENT = '7d6f1e9a-2b3c-4d5e-8f90-0123456789ab'

/** Right, but its answer would come in thirty years. */
const LATE = 'after_seconds large'

interface Endpoint {
  path: string
  body: object
  fields: readonly string[]
  setup?: readonly Call[]
}

const RUN =
  'assistant_id input command metadata config context interrupt_before interrupt_after stream_mode stream_subgraphs stream_resumable feedback_keys webhook multitask_strategy if_not_exists on_disconnect on_completion after_seconds durability checkpoint checkpoint_id'
const ENDPOINTS: { readonly [name: string]: Endpoint } = {
  run: { path: '/runs/wait', body: { assistant_id: 'echo', input: {} }, fields: RUN.split(' ') },
  thread: { path: '/threads', body: {}, fields: ['thread_id', 'metadata', 'if_exists', 'ttl', 'supersteps'] },
  'search of threads': {
    path: '/threads/search',
    body: { metadata: { case: '{case}' } },
    fields: ['metadata', 'values', 'status', 'limit', 'offset', 'sort_by', 'sort_order', 'select', 'ids', 'extract'],
  },
  assistant: {
    path: '/assistants',
    body: { graph_id: 'echo' },
    fields: ['assistant_id', 'graph_id', 'config', 'context', 'metadata', 'if_exists', 'name', 'description'],
  },
  'search of assistants': {
    path: '/assistants/search',
    body: { metadata: { case: '{case}' } },
    fields: ['metadata', 'graph_id', 'limit', 'offset', 'sort_by', 'sort_order', 'select', 'name'],
  },
  history: {
    path: '/threads/{thread}/history',
    body: {},
    fields: ['limit', 'before', 'metadata', 'checkpoint'],
    setup: [thread()],
  },
  update: {
    path: '/threads/{thread}/state',
    body: { values: { seen: 1 }, as_node: 'node' },
    fields: ['values', 'as_node', 'checkpoint', 'checkpoint_id'],
    setup: [thread({ metadata: { graph_id: 'echo' } })],
  },
  items: {
    path: '/store/items/search',
    body: { namespace_prefix: ['wrong', '{case}'] },
    fields: ['namespace_prefix', 'filter', 'limit', 'offset', 'query'],
  },
  namespaces: {
    path: '/store/namespaces',
    body: { prefix: ['wrong', '{case}'] },
    fields: ['prefix', 'suffix', 'max_depth', 'limit', 'offset'],
  },
  cron: {
    path: '/runs/crons',
    body: { assistant_id: 'echo', schedule: '0 0 1 1 *' },
    fields: ['assistant_id', 'schedule', 'input', 'metadata', 'config', 'end_time', 'timezone', 'enabled', 'webhook'],
  },
  cancel: {
    path: '/runs/cancel',
    body: { thread_id: ABSENT, run_ids: [ABSENT] },
    fields: ['status', 'thread_id', 'run_ids'],
  },
  prune: { path: '/threads/prune', body: { thread_ids: [] }, fields: ['thread_ids', 'strategy'] },
}

const BODIES: { readonly [name: string]: string } = {
  empty: '',
  'not JSON': '{',
  text: '"text"',
  number: '1',
  null: 'null',
  list: '[]',
  'two values': '{} {}',
}

const IDS = [
  'absent',
  '1',
  '{upper}',
  'urn:uuid:6d6f1e9a-2b3c-4d5e-8f90-0123456789ab',
  '6d6f1e9a2b3c4d5e8f900123456789ab',
  '%00',
]
const ID_PATHS = ['/threads/ID', '/threads/ID/state', '/threads/ID/runs', '/assistants/ID', '/runs/crons/ID']

export const wrong: readonly Case[] = [
  ...Object.entries(ENDPOINTS).flatMap(([name, { path, body, fields, setup = [] }]) => [
    ...fields.flatMap(field =>
      Object.entries(WRONG)
        .filter(([kind]) => `${field} ${kind}` !== LATE)
        .map(([kind, value]) => ({
          name: `${name}/${field}/${kind}`,
          calls: [...setup, post(path, { ...body, [field]: value })],
        })),
    ),
    ...Object.entries(BODIES).map(([kind, text]) => ({
      name: `${name}/body/${kind}`,
      calls: [...setup, post(path, undefined, { text })],
    })),
  ]),
  ...ID_PATHS.flatMap(path =>
    IDS.map((id, at) => ({ name: `id/${path}/${at}`, calls: [{ call: `GET ${path.replace('ID', id)}` }] })),
  ),
  ...['limit=0', 'limit=-1', 'limit=1001', 'limit=x', 'limit=1.5', 'offset=-1', 'status=absent', 'select=absent'].map(
    query => ({
      name: `query/${query}`,
      calls: [thread(), { call: `GET /threads/{thread}/runs?${query}` }],
    }),
  ),
  ...['PUT /threads', 'GET /runs/wait', 'DELETE /assistants', 'GET /absent', 'POST /ok', 'GET /threads//state'].map(
    call => ({
      name: `route/${call}`,
      calls: [{ call }],
    }),
  ),
]
