/** A run that comes while another one executes. */
import { type Call, type Case, get, post, STORED, thread } from '../case.js'

const STRATEGIES = ['reject', 'enqueue', 'interrupt', 'rollback']
/** One step: what is stored does not depend on when it ends. It is still there when both servers, on a busy machine, get a cancel. */
const SLOW = { assistant_id: 'counter', input: { steps: 1, delay_ms: 5_000 } }

const begin: readonly Call[] = [
  thread(),
  post('/threads/{thread}/runs', SLOW, { save: { run: 'run_id' }, silent: true }),
  get('/threads/{thread}/runs/{run}', { until: 'running', silent: true }),
  { call: 'GET /ok', silent: true },
]
const ended: readonly Call[] = [
  get('/threads/{thread}', { until: 'settled', silent: true }),
  get('/threads/{thread}'),
  get('/threads/{thread}/runs'),
]

const CANCELS = [
  '',
  '?wait=true',
  '?action=interrupt&wait=1',
  '?action=rollback&wait=1',
  '?action=absent',
  '?wait=false',
]

const CASES: readonly Case[] = [
  ...STRATEGIES.map(multitask_strategy => ({
    name: `second/${multitask_strategy}`,
    calls: [
      ...begin,
      post(
        '/threads/{thread}/runs',
        { assistant_id: 'echo', input: {}, multitask_strategy },
        { save: { second: 'run_id' } },
      ),
      ...ended,
    ],
  })),
  ...STRATEGIES.map(multitask_strategy => ({
    name: `idle/${multitask_strategy}`,
    calls: [
      thread(),
      post('/threads/{thread}/runs/wait', { assistant_id: 'counter', input: { steps: 2 }, multitask_strategy }),
      ...STORED,
    ],
  })),
  ...CANCELS.map(query => ({
    name: `cancel/${query}`,
    calls: [
      ...begin,
      { call: `POST /threads/{thread}/runs/{run}/cancel${query}` },
      ...ended,
      get('/threads/{thread}/runs/{run}'),
      { call: 'POST /threads/{thread}/runs/{run}/cancel' },
    ],
  })),
  {
    name: 'cancel several',
    calls: [...begin, post('/runs/cancel', { thread_id: '{thread}', run_ids: ['{run}'] }), ...ended],
  },
  { name: 'cancel by status', calls: [...begin, post('/runs/cancel', { status: 'all' }), ...ended] },
  {
    name: 'update while busy',
    calls: [...begin, post('/threads/{thread}/state', { values: { numbers: [1] } }), ...ended],
  },
  {
    name: 'delete while busy',
    calls: [...begin, { call: 'DELETE /threads/{thread}/runs/{run}' }, ...ended],
  },
  {
    name: 'delayed',
    calls: [
      thread(),
      post(
        '/threads/{thread}/runs',
        { assistant_id: 'echo', input: {}, after_seconds: 60 },
        { save: { run: 'run_id' } },
      ),
      get('/threads/{thread}'),
      get('/threads/{thread}/runs?status=pending'),
      { call: 'POST /threads/{thread}/runs/{run}/cancel?wait=true' },
      ...ended,
    ],
  },
]

/** The state that a run meets depends on when it comes. */
export const multitask: readonly Case[] = CASES.map(one => ({ ...one, alone: true }))
