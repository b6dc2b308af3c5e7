import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Frame, readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'
import { type Body, type RequestRow, requestTests } from './rows.js'
import { startServer } from './server.js'

t.setTimeout(180_000)

interface Made {
  frames: Frame[]
  run_id: string
  /** The run in the body of its webhook call. */
  run: () => Promise<Body>
  started: number
}

const dataOf = (frames: Frame[], event: string) =>
  frames.filter(one => one.event === event).map(one => JSON.parse(one.data))
const last = (made: Made, event = 'values') => dataOf(made.frames, event).at(-1) as Body
const eventsOf = (made: Made) => [...new Set(made.frames.map(one => one.event))]

t.test('POST /runs/stream', async t => {
  const { cluster, http, ok, hook } = await startServer(t)
  const make = async (body: Body): Promise<Made> => {
    const started = Date.now()
    const { url, calls } = hook()
    const { frames } = await readStream(`${cluster.url}/runs/stream`, {
      method: 'POST',
      body: { webhook: url, ...body },
    })
    const { run_id } = dataOf(frames, 'metadata')[0] as { run_id: string }
    return { frames, run_id, run: () => until(() => calls()[0]), started }
  }
  const seen_config = (made: Made) => last(made).seen_config as Body
  const { assistant_id: seenConfigId } = await ok('GET', '/assistants/seen_config')
  const own = await ok('POST', '/assistants', { graph_id: 'seen_config', config: { tags: ['own'] } })
  const hooked = hook()
  const long = hook()
  const longUrl = `${long.url}?${'x'.repeat(65_536 - long.url.length - 1)}`

  const rows: RequestRow<Made>[] = [
    {
      field: 'assistant_id',
      type: 'string',
      required: true,
      takes: [
        ['seen_config', async (t, made) => void t.equal((await made.run()).assistant_id, seenConfigId)],
        [own.assistant_id, (t, made) => void t.match(seen_config(made), { tags: ['own'] })],
      ],
    },
    {
      field: 'input',
      type: 'any',
      takes: [
        [{ ask: 'a' }, (t, made) => void t.match(dataOf(made.frames, 'values')[0], { ask: 'a' })],
        ...(['text', 5, true, [1], [{ a: 1 }]] as unknown[]).map(
          value =>
            [
              value,
              async (t, made) => void t.same(((await made.run()).kwargs as Body).input, value),
            ] as RequestRow<Made>['takes'][number],
        ),
      ],
      absent: async (t, made) => void t.same(((await made.run()).kwargs as Body).input, null),
    },
    {
      field: 'command',
      type: 'object',
      takes: [
        [{ update: { ask: 'u' } }, (t, made) => void t.match(last(made), { ask: 'u' })],
        [
          { goto: { node: 'node', input: { ask: 'g' } } },
          (t, made) => void t.ok(last(made).seen_config, 'the webhook receives it'),
        ],
        [
          { resume: { yes: true } },
          async (t, made) => void t.match((await made.run()).kwargs, { command: { resume: { yes: true } } }),
        ],
      ],
      absent: async (t, made) => void t.match((await made.run()).kwargs, { command: null }),
    },
    {
      field: 'command.update',
      type: 'object',
      takes: [[{ ask: 'v' }, (t, made) => void t.match(last(made), { ask: 'v' })]],
      // A list of pairs as well.
      also: [[]],
    },
    {
      field: 'metadata',
      type: 'object',
      takes: [
        [
          { a: { b: [1] } },
          async (t, made) => {
            t.match((await made.run()).metadata, { a: { b: [1] } }, 'the run has it')
            t.match(seen_config(made).metadata, { a: { b: [1] } })
          },
        ],
      ],
    },
    {
      field: 'config',
      type: 'object',
      takes: [
        [
          { tags: ['c'], recursion_limit: 8, configurable: { x: 1 } },
          (t, made) => void t.match(seen_config(made), { tags: ['c'], recursionLimit: 8, configurable: { x: 1 } }),
        ],
      ],
      absent: (t, made) => void t.match(seen_config(made), { recursionLimit: 25 }),
    },
    {
      field: 'config.tags',
      type: 'array of string',
      takes: [[['d'], (t, made) => void t.match(seen_config(made), { tags: ['d'] })]],
    },
    {
      field: 'config.recursion_limit',
      type: 'number',
      takes: [[6, (t, made) => void t.match(seen_config(made), { recursionLimit: 6 })]],
    },
    {
      field: 'config.configurable',
      type: 'object',
      takes: [[{ y: [2] }, (t, made) => void t.match(seen_config(made), { configurable: { y: [2] } })]],
    },
    {
      field: 'context',
      type: 'object',
      takes: [[{ who: 'bob' }, (t, made) => void t.match(seen_config(made), { context: { who: 'bob' } })]],
    },
    {
      field: 'webhook',
      type: 'string',
      takes: [
        [
          hooked.url,
          async (t, made) =>
            void t.match(
              await until(() => hooked.calls()[0]),
              { run_id: made.run_id, status: 'success' },
              'called after the run',
            ),
        ],
        [
          longUrl,
          async (t, made) =>
            void t.match(await until(() => long.calls()[0]), { run_id: made.run_id }, '65,536 characters'),
        ],
      ],
      refuses: ['', `${longUrl}x`, 'http://10.0.0.1/'],
    },
    {
      field: 'stream_mode',
      type: ['values', 'messages', 'messages-tuple', 'tasks', 'checkpoints', 'updates', 'events', 'debug', 'custom'],
      takes: [
        ...['values', 'tasks', 'checkpoints', 'updates', 'events', 'debug'].map(
          mode =>
            [mode, (t, made) => void t.same(eventsOf(made), ['metadata', mode])] as RequestRow<Made>['takes'][number],
        ),
        [
          ['updates', 'values'],
          (t, made) => void t.same(new Set(eventsOf(made)), new Set(['metadata', 'updates', 'values'])),
        ],
        [['values'], (t, made) => void t.ok(last(made))],
      ],
      absent: (t, made) => void t.same(eventsOf(made), ['metadata', 'values']),
      // The React hook sends an empty list when it tracks nothing: the default.
      also: [[]],
      refuses: [['values', 'other'], ''],
    },
    {
      field: 'feedback_keys',
      type: 'array of string',
      takes: [
        [
          ['good', 'bad'],
          async (t, made) => void t.match((await made.run()).kwargs, { feedback_keys: ['good', 'bad'] }),
        ],
      ],
      absent: async (t, made) => void t.match((await made.run()).kwargs, { feedback_keys: null }),
    },
    {
      field: 'stream_subgraphs',
      type: 'boolean',
      takes: [true, false].map(value => [
        value,
        async (t, made) => void t.match((await made.run()).kwargs, { stream_subgraphs: value }),
      ]),
      absent: async (t, made) => void t.match((await made.run()).kwargs, { stream_subgraphs: false }),
    },
    {
      field: 'stream_resumable',
      type: 'boolean',
      takes: [true, false].map(value => [
        value,
        async (t, made) => void t.match((await made.run()).kwargs, { resumable: value }),
      ]),
      absent: async (t, made) => void t.match((await made.run()).kwargs, { resumable: false }),
    },
    {
      field: 'on_completion',
      type: ['delete', 'keep'],
      takes: [
        [
          'keep',
          async (t, made) =>
            void t.match(await ok('GET', `/threads/${(await made.run()).thread_id}`), {
              status: 'idle',
              values: { seen_config: {} },
            }),
        ],
        [
          'delete',
          async (t, made) => void t.equal((await http('GET', `/threads/${(await made.run()).thread_id}`)).status, 404),
        ],
      ],
      absent: async (t, made) =>
        void t.equal(
          (await http('GET', `/threads/${(await made.run()).thread_id}`)).status,
          404,
          'the default is delete',
        ),
    },
    {
      field: 'on_disconnect',
      type: ['cancel', 'continue'],
      takes: (['cancel', 'continue'] as const).map(value => [
        value,
        (t, made) => void t.ok(last(made).seen_config, 'a client that stays receives every event'),
      ]),
    },
    {
      field: 'after_seconds',
      type: 'number',
      takes: [
        [
          0.6,
          (t, made) => void t.ok(Date.now() - made.started >= 600 && last(made).seen_config, 'not before the delay'),
        ],
        [0, (t, made) => void t.ok(last(made).seen_config)],
      ],
      refuses: [-1],
    },
    {
      field: 'checkpoint_during',
      type: 'boolean',
      takes: [
        [true, async (t, made) => void t.match((await made.run()).kwargs, { durability: 'async' })],
        [false, async (t, made) => void t.match((await made.run()).kwargs, { durability: 'exit' })],
      ],
    },
    {
      field: 'durability',
      type: ['sync', 'async', 'exit'],
      takes: (['sync', 'async', 'exit'] as const).map(value => [
        value,
        async (t, made) => void t.match((await made.run()).kwargs, { durability: value }),
      ]),
      absent: async (t, made) => void t.match((await made.run()).kwargs, { durability: 'async' }),
    },
  ]
  await requestTests(t, {
    name: 'request',
    good: () => ({ assistant_id: 'seen_config', input: {}, on_completion: 'keep' }),
    send: async body => {
      const { status, body: text } = await http('POST', '/runs/stream', body)
      return { status, body: text }
    },
    make,
    rows,
  })

  await t.test('stream_mode: the events of each mode', async t => {
    const of = async (assistant_id: string, stream_mode: unknown, more: Body = {}) =>
      make({ assistant_id, input: {}, stream_mode, ...more })
    const hi = { input: { messages: [{ role: 'user', content: 'hi' }] } }
    t.match(dataOf((await of('counter', 'values', { input: { steps: 2 } })).frames, 'values').at(-1), {
      numbers: [1, 2],
    })
    t.match(last(await of('counter', 'updates', { input: { steps: 1 } }), 'updates'), { count: { numbers: [1] } })
    t.match(last(await of('chunks', 'custom', { input: { count: 2 } }), 'custom'), { i: 1 })
    t.match(last(await of('counter', 'tasks', { input: { steps: 1 } }), 'tasks'), { name: 'count', result: Object })
    t.match(last(await of('counter', 'checkpoints', { input: { steps: 1 } }), 'checkpoints'), {
      values: { numbers: [1] },
    })
    t.match(last(await of('counter', 'debug', { input: { steps: 1 } }), 'debug'), { type: String, payload: Object })
    t.match(dataOf((await of('counter', 'events', { input: { steps: 1 } })).frames, 'events')[0], {
      event: 'on_chain_start',
    })
    const text = 'every token must arrive, also the last one.'
    const whole = await of('model', 'messages', hi)
    t.match(last(whole, 'messages/complete'), [{ content: text }])
    const tuples = dataOf((await of('model', 'messages-tuple', hi)).frames, 'messages') as [{ content: string }][]
    t.equal(tuples.map(([{ content }]) => content).join(''), text)
  })

  await t.test('stream_subgraphs: events of a subgraph only on request', async t => {
    const named = async (more: Body) =>
      eventsOf(await make({ assistant_id: 'nested', input: {}, stream_mode: 'updates', ...more })).some(name =>
        name.includes('|'),
      )
    t.same(
      [await named({}), await named({ stream_subgraphs: false }), await named({ stream_subgraphs: true })],
      [false, false, true],
    )
  })

  await t.test('stream_resumable: stored events can be read again', async t => {
    const made = await make({ assistant_id: 'counter', input: { steps: 3 }, stream_resumable: true })
    const all = await readStream(`${cluster.url}/runs/${made.run_id}/stream`, { headers: { 'Last-Event-ID': '-1' } })
    t.same(all.frames, made.frames)
    const rest = await readStream(`${cluster.url}/runs/${made.run_id}/stream`, { headers: { 'Last-Event-ID': '1' } })
    t.same(rest.frames, made.frames.slice(2))
  })

  await t.test('on_disconnect: cancel by default, continue on request', async t => {
    const left = async (more: Body) => {
      const { url, calls } = hook()
      const body = { assistant_id: 'slow', input: { ms: 1_500 }, webhook: url, ...more }
      await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body, stopAfter: 1 })
      return (await until(() => calls()[0])).status
    }
    t.same(await Promise.all([left({}), left({ on_disconnect: 'cancel' }), left({ on_disconnect: 'continue' })]), [
      'interrupted',
      'interrupted',
      'success',
    ])
  })

  await t.test('checkpoint_during and durability: which checkpoints are stored', async t => {
    const steps = async (more: Body) => {
      const { run } = await make({ assistant_id: 'counter', input: { steps: 3 }, on_completion: 'keep', ...more })
      const state = await ok('GET', `/threads/${(await run()).thread_id}/state`)
      t.match(state, { values: { numbers: [1, 2, 3] }, next: [] })
      return state.parent_checkpoint !== null
    }
    t.same(
      await Promise.all([
        steps({}),
        steps({ durability: 'sync' }),
        steps({ durability: 'async' }),
        steps({ durability: 'exit' }),
        steps({ checkpoint_during: true }),
        steps({ checkpoint_during: false }),
        steps({ checkpoint_during: false, durability: 'sync' }),
      ]),
      [true, true, true, false, true, false, true],
      'a checkpoint before the last, or the last alone',
    )
  })

  await t.test('events: each has an id, an event and a data line; ids grow without a gap', async t => {
    const answer = await fetch(`${cluster.url}/runs/stream`, {
      method: 'POST',
      body: JSON.stringify({ assistant_id: 'counter', input: { steps: 3 }, stream_mode: ['values', 'updates'] }),
    })
    t.match(answer.headers.get('content-type'), /^text\/event-stream/)
    const blocks = (await answer.text())
      .split('\n\n')
      .map(block => block.split('\n').filter(line => line !== '' && !line.startsWith(':')))
      .filter(lines => lines.length > 0)
    t.ok(blocks.length > 6)
    for (const [i, lines] of blocks.entries()) {
      t.same(
        lines.map(line => line.slice(0, line.indexOf(':'))),
        ['id', 'event', 'data'],
      )
      t.equal(lines[0], `id: ${i}`)
      t.doesNotThrow(() => JSON.parse(lines[2]!.slice(6)))
    }
  })

  await t.test('an assistant that does not exist: 404 with one sentence, before any stream', async t => {
    for (const assistant_id of ['no such graph', randomUUID()]) {
      const { status, body } = await http('POST', '/runs/stream', { assistant_id, input: {} })
      t.equal(status, 404)
      t.type((body as Body).detail, 'string')
    }
  })
})
