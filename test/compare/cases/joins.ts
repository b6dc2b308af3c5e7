/** Joins of runs, before and after their end. */
import { type Call, type Case, get, post, thread } from '../case.js'

const begin = (assistant_id: string, body: object): readonly Call[] => [
  thread(),
  post('/threads/{thread}/runs', { assistant_id, ...body }, { save: { run: 'run_id' }, silent: true }),
]
const RUN = '/threads/{thread}/runs/{run}'
const MODES = ['values', 'updates', 'custom']
const SLOW = { input: { steps: 3, delay_ms: 60 }, stream_mode: MODES }

const GRAPHS: { readonly [graph: string]: object } = {
  counter: { steps: 2 },
  ask: {},
  fail: { text: 'oh' },
}

export const joins: readonly Case[] = [
  { name: 'wait before the end', calls: [...begin('counter', SLOW), get(`${RUN}/join`)] },
  {
    name: 'stream before the end',
    calls: [...begin('counter', { ...SLOW, stream_resumable: true }), get(`${RUN}/stream?last_event_id=-1`)],
  },
  ...Object.entries(GRAPHS).flatMap(([graph, input]) => [
    {
      name: `after the end/${graph}`,
      calls: [
        ...begin(graph, { input, stream_mode: MODES }),
        { ...get(RUN, { until: 'settled' as const }), silent: true },
        get(`${RUN}/join`),
        get(`${RUN}/stream`),
      ],
    },
    {
      name: `resumable/${graph}`,
      calls: [
        ...begin(graph, { input, stream_mode: MODES, stream_resumable: true }),
        { ...get(RUN, { until: 'settled' as const }), silent: true },
        get(`${RUN}/stream`),
        get(`${RUN}/stream?last_event_id=-1`),
        get(`${RUN}/stream`, { headers: { 'last-event-id': '-1' } }),
        get(`${RUN}/stream?last_event_id=-1&stream_mode=values`),
      ],
    },
  ]),
  {
    name: 'absent run',
    calls: [
      thread(),
      ...['', '/join', '/stream'].map(path =>
        get(`/threads/{thread}/runs/7d6f1e9a-2b3c-4d5e-8f90-0123456789ab${path}`),
      ),
      { call: 'POST /threads/{thread}/runs/7d6f1e9a-2b3c-4d5e-8f90-0123456789ab/cancel' },
    ],
  },
  {
    name: 'run of another thread',
    calls: [
      ...begin('echo', { input: {} }),
      get(`${RUN}/join`),
      thread(),
      get(RUN),
      get(`${RUN}/join`),
      get(`${RUN}/stream`),
    ],
  },
]
