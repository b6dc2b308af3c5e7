/** State, its history, updates and forks. */
import { type Call, type Case, get, post, STORED, thread, wait } from '../case.js'

const save = (at: number) => ({ save: { checkpoint: `${at}.checkpoint.checkpoint_id` } })
const history = (body: object, more: Partial<Call> = {}): Call => post('/threads/{thread}/history', body, more)
const update = (body: object): Call => post('/threads/{thread}/state', body)

const UPDATES: { readonly [name: string]: object } = {
  plain: { values: { numbers: [9] } },
  'as a node': { values: { numbers: [9] }, as_node: 'count' },
  'as the start': { values: { numbers: [9] }, as_node: '__start__' },
  'as the input': { values: { numbers: [9] }, as_node: '__input__' },
  'as the end': { values: null, as_node: '__end__' },
  'as a copy': { values: null, as_node: '__copy__' },
  'as an absent node': { values: { numbers: [9] }, as_node: 'absent' },
  'no values': { values: null },
  'empty values': { values: {} },
  'unknown key': { values: { color: 'red' } },
  'a list of values': { values: [{ numbers: [8] }, { numbers: [9] }] },
  'by checkpoint': {
    values: { numbers: [9] },
    as_node: 'count',
    checkpoint: { checkpoint_id: '{checkpoint}', checkpoint_ns: '' },
  },
  'by checkpoint id': { values: { numbers: [9] }, as_node: 'count', checkpoint_id: '{checkpoint}' },
  'by an unknown checkpoint': { values: { numbers: [9] }, checkpoint_id: '1f0aaaaa-0000-6000-8000-000000000000' },
}

const HISTORIES: { readonly [name: string]: object } = {
  plain: {},
  limit: { limit: 2 },
  before: { before: { configurable: { checkpoint_id: '{checkpoint}' } } },
  'before an id': { before: '{checkpoint}' },
  'before a checkpoint': { before: { checkpoint_id: '{checkpoint}' } },
  source: { metadata: { source: 'loop' } },
  step: { metadata: { step: 1 } },
  none: { metadata: { source: 'absent' } },
  checkpoint: { checkpoint: { checkpoint_ns: '' } },
}

const filled: readonly Call[] = [
  thread(),
  { ...wait('counter', { input: { steps: 3 } }), silent: true },
  history({ limit: 10 }, { ...save(2), silent: true }),
]

export const state: readonly Case[] = [
  ...Object.entries(UPDATES).map(([name, body]) => ({
    name: `update/${name}`,
    calls: [...filled, update(body), ...STORED, wait('counter', { input: null }), get('/threads/{thread}/state')],
  })),
  ...Object.entries(HISTORIES).map(([name, body]) => ({ name: `history/${name}`, calls: [...filled, history(body)] })),
  {
    name: 'history by query',
    calls: [
      ...filled,
      get('/threads/{thread}/history'),
      get('/threads/{thread}/history?limit=1'),
      get('/threads/{thread}/history?before={checkpoint}'),
    ],
  },
  {
    name: 'at a checkpoint',
    calls: [
      ...filled,
      get('/threads/{thread}/state/{checkpoint}'),
      post('/threads/{thread}/state/checkpoint', { checkpoint: { checkpoint_id: '{checkpoint}', checkpoint_ns: '' } }),
      post('/threads/{thread}/state/checkpoint', { checkpoint: { checkpoint_id: '{checkpoint}' }, subgraphs: true }),
      get('/threads/{thread}/state/1f0aaaaa-0000-6000-8000-000000000000'),
    ],
  },
  ...[{ checkpoint_id: '{checkpoint}' }, { checkpoint: { checkpoint_id: '{checkpoint}', checkpoint_ns: '' } }].flatMap(
    (fields, at) =>
      [null, { steps: 5 }].map((input, n) => ({
        name: `fork/${at}${n}`,
        calls: [...filled, wait('counter', { input, ...fields }), ...STORED],
      })),
  ),
  ...['echo', 'chat', 'counter', 'outer', 'fail'].map(graph => ({
    name: `after/${graph}`,
    calls: [
      thread(),
      wait(graph, { input: graph === 'chat' ? { messages: 'hi' } : {} }),
      ...STORED,
      get('/threads/{thread}/state'),
      get('/threads/{thread}/runs'),
    ],
  })),
  ...['echo', 'outer', 'fail'].flatMap(graph =>
    ['sync', 'async', 'exit'].map(durability => ({
      name: `durability/${graph}/${durability}`,
      calls: [thread(), wait(graph, { input: {}, durability }), ...STORED],
    })),
  ),
  {
    name: 'of a new thread',
    calls: [thread(), get('/threads/{thread}/state'), history({}), update({ values: { text: 1 } })],
  },
  {
    name: 'patch',
    calls: [
      ...filled,
      { call: 'PATCH /threads/{thread}/state', body: { metadata: { a: 1 } } },
      get('/threads/{thread}/state'),
      get('/threads/{thread}'),
    ],
  },
]
