/** Threads: each endpoint with each of its fields. */
import { type Call, type Case, get, post, STORED, wait } from '../case.js'

const create = (body: object = {}, more: Partial<Call> = {}): Call =>
  post('/threads', { metadata: { case: '{case}' }, ...body }, { save: { thread: 'thread_id' }, ...more })
const patch = (body: object): Call => ({ call: 'PATCH /threads/{thread}', body })
const remove: Call = { call: 'DELETE /threads/{thread}' }
const ID = '5d6f1e9a-2b3c-4d5e-8f90-0123456789ab'

const CREATED: { readonly [name: string]: object } = {
  plain: {},
  empty: { metadata: {} },
  metadata: { metadata: { a: [1, { b: null }], text: 'é' } },
  'null fields': { metadata: null, if_exists: null, ttl: null, supersteps: null },
  'graph id': { metadata: { graph_id: 'echo' } },
  ttl: { ttl: { ttl: 60, strategy: 'delete' } },
  'ttl as a number': { ttl: 60 },
  'unknown field': { color: 'red' },
  supersteps: {
    metadata: { graph_id: 'counter' },
    supersteps: [
      { updates: [{ values: { numbers: [1] }, as_node: '__input__' }] },
      { updates: [{ values: { numbers: [2] }, as_node: 'count' }] },
    ],
  },
  'supersteps without a graph': { supersteps: [{ updates: [{ values: { numbers: [1] }, as_node: '__input__' }] }] },
  'supersteps of an absent node': {
    metadata: { graph_id: 'counter' },
    supersteps: [{ updates: [{ values: { numbers: [1] }, as_node: 'absent' }] }],
  },
}

const SEARCHES: { readonly [name: string]: object } = {
  plain: { sort_by: 'created_at', sort_order: 'asc' },
  'last first': { sort_by: 'created_at', sort_order: 'desc' },
  'by update': { sort_by: 'updated_at', sort_order: 'asc' },
  limit: { limit: 1, sort_by: 'created_at', sort_order: 'asc' },
  offset: { limit: 1, offset: 1, sort_by: 'created_at', sort_order: 'asc' },
  'beyond the end': { offset: 99 },
  idle: { status: 'idle', sort_by: 'created_at', sort_order: 'asc' },
  interrupted: { status: 'interrupted' },
  error: { status: 'error' },
  busy: { status: 'busy' },
  values: { values: { answer: 'x' } },
  'values of a run': { values: { seen: 'one' } },
  'nested metadata': { metadata: { case: '{case}', at: { a: 1 } } },
  'metadata list': { metadata: { case: '{case}', list: [1] } },
  select: { select: ['thread_id', 'status'], sort_by: 'created_at', sort_order: 'asc' },
  extract: { extract: { seen: 'values.seen' }, sort_by: 'created_at', sort_order: 'asc' },
  ids: { ids: ['{thread}'] },
  'no ids': { ids: [] },
  'by status': { sort_by: 'status', sort_order: 'asc', limit: 1 },
}

export const threads: readonly Case[] = [
  ...Object.entries(CREATED).map(([name, body]) => ({
    name: `create/${name}`,
    calls: [create(body), get('/threads/{thread}'), get('/threads/{thread}/state'), remove, get('/threads/{thread}')],
  })),
  ...Object.entries(SEARCHES).map(([name, body]) => ({
    name: `search/${name}`,
    calls: [
      create({ metadata: { case: '{case}', at: { a: 1, b: 2 }, list: [1, 2] } }, { silent: true }),
      create({}, { silent: true }),
      { ...wait('ask', { input: {} }), silent: true },
      create({}, { silent: true }),
      { ...wait('echo', { input: { text: 'one' } }), silent: true },
      post('/threads/search', { metadata: { case: '{case}' }, ...body }),
      post('/threads/count', { metadata: { case: '{case}' }, ...body }),
    ],
  })),
  {
    name: 'the same id',
    calls: [
      create({ thread_id: ID }),
      create({ thread_id: ID }),
      create({ thread_id: ID, if_exists: 'raise' }),
      create({ thread_id: ID, if_exists: 'do_nothing', metadata: { other: 1 } }),
      remove,
      remove,
    ],
  },
  {
    name: 'patch',
    calls: [
      create({ metadata: { a: 1, deep: { b: 1 } } }),
      patch({ metadata: { c: 2 } }),
      patch({ metadata: { a: null, deep: { d: 2 } } }),
      patch({ metadata: {} }),
      patch({}),
      patch({ ttl: { ttl: 5, strategy: 'delete' } }),
      get('/threads/{thread}'),
      get('/threads/{thread}?include=ttl'),
    ],
  },
  {
    name: 'copy',
    calls: [
      create({ metadata: { a: 1 } }),
      wait('counter', { input: { steps: 2 } }),
      { call: 'POST /threads/{thread}/copy', save: { thread: 'thread_id' } },
      ...STORED,
      get('/threads/{thread}/runs'),
      wait('counter', { input: { steps: 4 } }),
      get('/threads/{thread}/state'),
    ],
  },
  {
    name: 'copy of an interrupted thread',
    calls: [
      create(),
      wait('ask', { input: {} }),
      { call: 'POST /threads/{thread}/copy', save: { thread: 'thread_id' } },
      ...STORED,
      wait('ask', { command: { resume: 'yes' } }),
    ],
  },
  {
    name: 'prune',
    calls: [
      create(),
      wait('counter', { input: { steps: 3 } }),
      post('/threads/prune', { thread_ids: ['{thread}'], strategy: 'keep_latest' }),
      ...STORED,
      post('/threads/prune', { thread_ids: ['{thread}'] }),
      get('/threads/{thread}'),
      post('/threads/prune', { thread_ids: [] }),
    ],
  },
]
