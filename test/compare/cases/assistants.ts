/** Assistants: each endpoint with each of its fields. */
import { type Call, type Case, get, post } from '../case.js'

const GRAPHS = ['echo', 'chat', 'ask', 'asks', 'outer', 'counter', 'stored', 'seen', 'fail', 'kinds']

const create = (body: object = {}, more: Partial<Call> = {}): Call =>
  post(
    '/assistants',
    { graph_id: 'echo', metadata: { case: '{case}' }, ...body },
    {
      save: { assistant: 'assistant_id' },
      ...more,
    },
  )
const patch = (body: object): Call => ({ call: 'PATCH /assistants/{assistant}', body })
const remove = (query = ''): Call => ({ call: `DELETE /assistants/{assistant}${query}` })
const ID = '4d6f1e9a-2b3c-4d5e-8f90-0123456789ab'

const CREATED: { readonly [name: string]: object } = {
  plain: {},
  name: { name: 'An assistant' },
  description: { name: 'a', description: 'What it does' },
  config: { config: { tags: ['a'], recursion_limit: 7, configurable: { model: 'm' } } },
  context: { context: { model: 'm', depth: 1 } },
  'empty config': { config: {}, context: {} },
  'null fields': { name: null, description: null, config: null, context: null, if_exists: null },
  metadata: { metadata: { case: '{case}', a: [1, { b: null }], created_by: 'me' } },
  'unknown field': { color: 'red' },
  'unknown graph': { graph_id: 'absent' },
  'no graph': { graph_id: null },
}

const SEARCHES: { readonly [name: string]: object } = {
  plain: {},
  graph: { graph_id: 'echo' },
  'other graph': { graph_id: 'ask' },
  name: { name: 'two' },
  'part of a name': { name: 'TW' },
  'by name': { sort_by: 'name', sort_order: 'asc' },
  'by name, last first': { sort_by: 'name', sort_order: 'desc' },
  'by time': { sort_by: 'created_at', sort_order: 'asc' },
  limit: { limit: 1, sort_by: 'name' },
  offset: { limit: 1, offset: 1, sort_by: 'name' },
  'beyond the end': { offset: 99 },
  select: { select: ['assistant_id', 'name'], sort_by: 'name' },
  'unknown sort': { sort_by: 'color' },
}

export const assistants: readonly Case[] = [
  ...Object.entries(CREATED).map(([name, body]) => ({
    name: `create/${name}`,
    calls: [create(body), get('/assistants/{assistant}'), post('/assistants/{assistant}/versions', {}), remove()],
  })),
  ...Object.entries(SEARCHES).map(([name, body]) => ({
    name: `search/${name}`,
    calls: [
      ...['one', 'two', 'three'].map(name => create({ name }, { silent: true })),
      post('/assistants/search', { metadata: { case: '{case}' }, ...body }),
      post('/assistants/count', { metadata: { case: '{case}' }, ...body }),
    ],
  })),
  ...GRAPHS.flatMap(graph => [
    { name: `graph/${graph}`, calls: [get(`/assistants/${graph}/graph`), get(`/assistants/${graph}/graph?xray=true`)] },
    { name: `schemas/${graph}`, calls: [get(`/assistants/${graph}/schemas`)] },
    {
      name: `subgraphs/${graph}`,
      calls: [
        get(`/assistants/${graph}/subgraphs`),
        get(`/assistants/${graph}/subgraphs?recurse=true`),
        get(`/assistants/${graph}/subgraphs/inner`),
      ],
    },
  ]),
  {
    name: 'search/of the system',
    calls: [post('/assistants/search', { metadata: { created_by: 'system' }, sort_by: 'name', limit: 50 })],
  },
  {
    name: 'the same id',
    calls: [
      create({ assistant_id: ID }),
      create({ assistant_id: ID, name: 'other' }),
      create({ assistant_id: ID, if_exists: 'raise' }),
      create({ assistant_id: ID, if_exists: 'do_nothing', name: 'other' }),
      remove(),
      remove(),
      get('/assistants/{assistant}'),
    ],
  },
  {
    name: 'versions',
    calls: [
      create({ name: 'first', config: { configurable: { model: 'a' } } }),
      patch({ name: 'second' }),
      patch({ metadata: { added: 1 } }),
      patch({ config: { configurable: { model: 'b' } } }),
      patch({ context: { model: 'c' } }),
      patch({ graph_id: 'ask' }),
      patch({ description: 'new' }),
      patch({}),
      get('/assistants/{assistant}'),
      post('/assistants/{assistant}/versions', {}),
      post('/assistants/{assistant}/versions', { limit: 2, offset: 1 }),
      post('/assistants/{assistant}/versions', { metadata: { added: 1 } }),
      post('/assistants/{assistant}/latest', { version: 1 }),
      get('/assistants/{assistant}'),
      post('/assistants/{assistant}/latest', { version: 99 }),
      post('/threads', {}, { save: { thread: 'thread_id' }, silent: true }),
      post('/threads/{thread}/runs/wait', { assistant_id: '{assistant}', input: { text: 'x' } }),
      remove('?delete_threads=true'),
      get('/threads/{thread}'),
    ],
  },
]
