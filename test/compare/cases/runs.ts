/** Runs: each endpoint that creates, lists and deletes them, with each of its fields. */
import { type Case, get, post, STORED, thread, wait } from '../case.js'

const FIELDS: { readonly [name: string]: object } = {
  plain: {},
  metadata: { metadata: { a: 1 } },
  config: { config: { tags: ['t'], recursion_limit: 30, configurable: { model: 'm' } } },
  context: { context: { model: 'm' } },
  'stream mode': { stream_mode: ['updates', 'values'] },
  subgraphs: { stream_subgraphs: true },
  resumable: { stream_resumable: true },
  'interrupt before': { interrupt_before: ['node'] },
  'interrupt after': { interrupt_after: '*' },
  webhook: { webhook: 'https://example.com/hook' },
  'feedback keys': { feedback_keys: ['a'] },
  multitask: { multitask_strategy: 'enqueue' },
  'if not exists': { if_not_exists: 'create' },
  'on disconnect': { on_disconnect: 'cancel' },
  'on completion': { on_completion: 'keep' },
  durability: { durability: 'sync' },
  'checkpoint during': { checkpoint_during: false },
  'no delay': { after_seconds: 0 },
  tracer: { langsmith_tracer: { project_name: 'p' } },
  'unknown field': { color: 'red' },
  'no input': { input: null },
  'null fields': {
    metadata: null,
    config: null,
    context: null,
    webhook: null,
    interrupt_before: null,
    stream_mode: null,
  },
}
const ABSENT = '7d6f1e9a-2b3c-4d5e-8f90-0123456789ab'

const FAILURES = ['oh', 'no dict', 'no message', 'value', 'key', 'send', '']

export const runs: readonly Case[] = [
  ...Object.entries(FIELDS).flatMap(([name, fields]) => [
    {
      name: `create/${name}`,
      calls: [
        thread({ metadata: { of: 'thread' } }),
        post(
          '/threads/{thread}/runs',
          { assistant_id: 'echo', input: { text: 1 }, ...fields },
          { save: { run: 'run_id' } },
        ),
        get('/threads/{thread}/runs/{run}/join'),
        get('/threads/{thread}/runs/{run}', { until: 'settled' }),
        get('/threads/{thread}/runs'),
        get('/threads/{thread}'),
      ],
    },
    {
      name: `without a thread/${name}`,
      calls: [
        post('/runs', { assistant_id: 'echo', input: { text: 1 }, ...fields }),
        post('/runs/wait', { assistant_id: 'echo', input: { text: 1 }, ...fields }),
        post('/runs/stream', { assistant_id: 'echo', input: { text: 1 }, ...fields }),
      ],
    },
  ]),
  ...FAILURES.flatMap(text => [
    {
      name: `failure/${text}`,
      calls: [
        thread(),
        wait('fail', { input: { text } }),
        wait('fail', { input: { text }, raise_error: false }),
        get('/threads/{thread}/runs'),
        ...STORED,
        post('/runs/stream', { assistant_id: 'fail', input: { text }, stream_mode: 'updates' }),
      ],
    },
  ]),
  {
    name: 'recursion limit',
    calls: [thread(), wait('counter', { input: { steps: 9 }, config: { recursion_limit: 3 } }), ...STORED],
  },
  {
    name: 'list',
    calls: [
      thread(),
      ...[1, 2, 3].map(text => wait('echo', { input: { text }, metadata: { n: text } })),
      get('/threads/{thread}/runs', { save: { run: '0.run_id' } }),
      ...[
        'limit=1',
        'limit=1&offset=1',
        'offset=9',
        'status=success',
        'status=error',
        'select=run_id&select=status',
      ].map(query => get(`/threads/{thread}/runs?${query}`)),
      { call: 'DELETE /threads/{thread}/runs/{run}' },
      { call: 'DELETE /threads/{thread}/runs/{run}' },
      get('/threads/{thread}/runs/{run}'),
      get('/threads/{thread}/runs'),
      ...STORED,
    ],
  },
  {
    name: 'batch',
    calls: [
      post('/runs/batch', [
        { assistant_id: 'echo', input: { text: 1 } },
        { assistant_id: 'counter', input: {} },
      ]),
      post('/runs/batch', []),
      post('/runs/batch', [{ assistant_id: 'echo' }, { assistant_id: 'absent' }]),
    ],
  },
  {
    name: 'absent thread',
    calls: [
      post(`/threads/${ABSENT}/runs/wait`, { assistant_id: 'echo', input: {} }),
      post(`/threads/${ABSENT}/runs/wait`, { assistant_id: 'echo', input: {}, if_not_exists: 'reject' }),
      post(`/threads/${ABSENT}/runs/wait`, { assistant_id: 'echo', input: {}, if_not_exists: 'create' }),
      get(`/threads/${ABSENT}`),
    ],
  },
  {
    name: 'absent assistant',
    calls: [
      thread(),
      wait('absent', { input: {} }),
      wait(ABSENT, { input: {} }),
      wait('', { input: {} }),
      get('/threads/{thread}'),
    ],
  },
]
