/** Config, context and metadata as a node sees them. */
import { type Case, get, post, thread, wait } from '../case.js'

const FIELDS: { readonly [name: string]: object } = {
  none: {},
  configurable: { config: { configurable: { model: 'a', depth: 2 } } },
  context: { context: { model: 'a', depth: 2 } },
  tags: { config: { tags: ['a', 'b'] } },
  'empty tags': { config: { tags: [] } },
  limit: { config: { recursion_limit: 7 } },
  metadata: { metadata: { purpose: 'test' } },
  'metadata of the config': { config: { metadata: { purpose: 'config' } } },
  'both metadata': { config: { metadata: { purpose: 'config' } }, metadata: { purpose: 'run' } },
  'unknown member': { config: { color: 'red' } },
  'unknown context': { context: { color: 'red' } },
  'reserved names': { config: { configurable: { user_id: 'me', graph_id: 'other', run_id: 'x', thread_id: 'y' } } },
  'reserved metadata': { metadata: { graph_id: 'other', run_id: 'x', assistant_id: 'y', source: 'mine' } },
  'null config': { config: null, context: null, metadata: null },
  'null members': { config: { configurable: null, tags: null, recursion_limit: null } },
}

export const config: readonly Case[] = Object.entries(FIELDS).flatMap(([name, fields]) => [
  {
    name: `run/${name}`,
    calls: [
      thread({ metadata: { source: 'thread' } }),
      wait('seen', { input: { text: 1 }, ...fields }),
      get('/threads/{thread}/runs', { save: { run: '0.run_id' } }),
      get('/threads/{thread}'),
      get('/threads/{thread}/state'),
      wait('seen', { input: { text: 2 } }),
      get('/threads/{thread}/state'),
    ],
  },
  {
    name: `without a thread/${name}`,
    calls: [post('/runs/wait', { assistant_id: 'seen', input: { text: 1 }, ...fields })],
  },
  {
    name: `assistant/${name}`,
    calls: [
      post('/assistants', { graph_id: 'seen', ...fields }, { save: { assistant: 'assistant_id' } }),
      post('/runs/wait', { assistant_id: '{assistant}', input: {} }),
      post('/runs/wait', { assistant_id: '{assistant}', input: {}, config: { configurable: { depth: 9 } } }),
      post('/runs/wait', { assistant_id: '{assistant}', input: {}, config: { tags: ['run'], recursion_limit: 9 } }),
      post('/runs/wait', { assistant_id: '{assistant}', input: {}, context: { depth: 9 } }),
      post('/runs/wait', { assistant_id: '{assistant}', input: {}, metadata: { purpose: 'run' } }),
    ],
  },
])
