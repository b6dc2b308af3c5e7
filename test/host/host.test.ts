import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { pack } from '../../schemas/packed.js'
import { LARGE_FRAME } from '../../workers/host/guards/frame-lanes.js'
import type { Ended } from './host-helper.js'
import { appOf, exampleApp, startHost } from './host-helper.js'

const app = appOf('basic')
const host = await startHost(app)
const { error, graphs } = await host.hello

const names = ({ events }: Ended) => events.map(({ event }) => event)
const dataOf = ({ events }: Ended, name: string) => events.filter(({ event }) => event === name).map(({ data }) => data)
const human = (content: string) => ({ messages: [{ role: 'user', content }] })

t.test('hello lists the graphs', async t => {
  t.equal(error, null)
  t.match(
    graphs.find(graph => graph.graph_id === 'counter'),
    { description: 'Counts', error: null },
  )
  t.ok(graphs.every(graph => graph.error === null))
})

t.test('values: metadata is first, ids have no gaps, bytes are final', async t => {
  let text = ''
  const run = host.start({ graph_id: 'echo', run_id: 'r', kwargs: { input: { text: 'hi' } } }, ({ body }) => {
    text += Buffer.from(body).toString()
  })
  const ended = await run.ended
  t.equal(
    text,
    [
      'id: 0\nevent: metadata\ndata: {"run_id":"r","attempt":1}\n\n',
      'id: 1\nevent: values\ndata: {"text":"hi"}\n\n',
      'id: 2\nevent: values\ndata: {"text":"hi","seen":"hi"}\n\n',
    ].join(''),
  )
  t.match(ended, { status: 'success', error: null, last_event_id: 2, head: null, next: [], rest: null, save_size: 0 })
  t.same(ended.values, { text: 'hi', seen: 'hi' })
})

t.test('updates; ids of a later attempt continue', async t => {
  const ended = await host.run({
    graph_id: 'counter',
    attempt: 2,
    first_id: 1_000_000_000,
    kwargs: { input: { steps: 2 }, stream_mode: ['updates'] },
  })
  t.same(
    ended.events.map(({ id, event, data }) => [id - 1_000_000_000, event, data]),
    [
      [
        0,
        'metadata',
        { run_id: ended.events[0]!.data && (ended.events[0]!.data as { run_id: string }).run_id, attempt: 2 },
      ],
      [1, 'updates', { count: { numbers: [1] } }],
      [2, 'updates', { count: { numbers: [2] } }],
    ],
  )
  t.same(ended.values, { steps: 2, numbers: [1, 2] }, 'values are in the finish although no mode streams them')
})

t.test('messages-tuple loses no token of a model that does not await its callbacks', async t => {
  for (const graph_id of ['model', 'stream']) {
    const ended = await host.run({ graph_id, kwargs: { input: human('hi'), stream_mode: ['messages-tuple'] } })
    const tuples = dataOf(ended, 'messages') as [
      { type: string; content: string; id: string },
      { langgraph_node: string },
    ][]
    const { messages } = ended.values as { messages: { content: string; id: string }[] }
    t.equal(tuples.map(([{ content }]) => content).join(''), messages.at(-1)!.content, 'all tokens, in order')
    t.ok(
      tuples.every(
        ([message, metadata]) =>
          message.type === 'ai' && message.id === messages.at(-1)!.id && metadata.langgraph_node === 'node',
      ),
    )
    t.notMatch(JSON.stringify(ended.events), /"lc":|"kwargs":/)
  }
})

t.test('events of several modes keep their order', async t => {
  const ended = await host.run({
    graph_id: 'chunks',
    kwargs: { input: { count: 3 }, stream_mode: ['values', 'custom', 'updates'] },
  })
  t.same(names(ended), ['metadata', 'values', 'custom', 'custom', 'custom', 'updates', 'values'])
  t.same(dataOf(ended, 'custom'), [{ i: 0 }, { i: 1 }, { i: 2 }])
})

t.test('custom alone bypasses the iterator and still reports the values', async t => {
  const ended = await host.run({ graph_id: 'chunks', kwargs: { input: { count: 3 }, stream_mode: ['custom'] } })
  t.same(names(ended), ['metadata', 'custom', 'custom', 'custom'])
  t.equal(ended.frames.length, 1, 'one frame for the turn')
  t.same(ended.values, { count: 3, done: 3 })
})

t.test('large events get separate frames, frames stay small', async t => {
  const one = await host.run({
    graph_id: 'chunks',
    kwargs: { input: { count: 3, size: 300_000 }, stream_mode: ['custom'] },
  })
  t.same(
    one.frames.map(({ count }) => count),
    [1, 1, 1, 1],
  )
  const many = await host.run({
    graph_id: 'chunks',
    kwargs: { input: { count: 200, size: 20_000 }, stream_mode: ['custom'] },
  })
  t.ok(many.frames.every(({ bytes }) => bytes <= 512 * 1024))
  t.same(
    many.events.map(({ id }) => id),
    Array.from({ length: 201 }, (_, i) => i),
  )
})

t.test('requested subgraph chunks carry their namespace', async t => {
  for (const stream_mode of [['custom'], ['custom', 'updates']] as const) {
    const spec = { input: { numbers: [] }, stream_mode: [...stream_mode] }
    const inside = await host.run({ graph_id: 'nested', kwargs: { ...spec, stream_subgraphs: true } })
    t.ok(names(inside).some(name => /^custom\|sub:[0-9a-f-]{36}$/.test(name)))
    const outside = await host.run({ graph_id: 'nested', kwargs: spec })
    t.ok(names(outside).every(name => !name.includes('|')))
  }
})

t.test('an error is the last event and sets the status of the run', async t => {
  const ended = await host.run({ graph_id: 'fail', kwargs: { input: { message: 'oh no' }, temporary: false } })
  const error = { error: 'TooBadError', message: 'oh no' }
  t.match(ended, { status: 'error', error, last_event_id: ended.events.length - 1, next: ['bad'] })
  t.same(ended.events.at(-1), { id: ended.last_event_id, event: 'error', data: error })
  t.same(ended.values, { message: 'oh no', before: true }, 'the state as far as it came')
  t.match(ended.rest, { tasks: [{ name: 'bad', error: 'TooBadError: oh no', state: null, result: null }] } as never)
  const unknown = await host.run({ graph_id: 'nowhere' })
  t.match(unknown.error, { message: 'Graph "nowhere" is not loaded.' })
  const limit = await host.run({ graph_id: 'counter', kwargs: { input: { steps: 9 }, config: { recursion_limit: 3 } } })
  t.match(limit.error, { error: 'GraphRecursionError' })
})

t.test('a cancelled run ends without an error event', async t => {
  for (const temporary of [true, false]) {
    const run = host.start({ graph_id: 'slow', kwargs: { input: { ms: 6000 }, temporary } })
    await sleep(50)
    const began = performance.now()
    run.cancel()
    const ended = await run.ended
    // Its supervisor kills its host after 5 s.
    t.ok(performance.now() - began < 4_500, 'before the end of its node, which ignores the signal')
    t.match(ended, { status: 'interrupted', error: null, next: temporary ? [] : ['node'] })
    t.same(names(ended), ['metadata', 'values'])
    t.same(ended.values, { ms: 6000 })
  }
})

t.test('a temporary run can interrupt and stores nothing', async t => {
  const ended = await host.run({ graph_id: 'ask', kwargs: { input: { question: 'when?' } } })
  t.match(ended, { status: 'success', next: ['node'], head: null, rest: null, save_size: 0 })
  t.match(Object.values(ended.interrupts).flat(), [{ value: { question: 'when?' } }])
  t.same(ended.values, { question: 'when?' })
})

t.test('a breakpoint stops the run before the node', async t => {
  const ended = await host.run({
    graph_id: 'counter',
    kwargs: { input: { steps: 1 }, interrupt_before: ['count'], temporary: false },
  })
  t.match(ended, { status: 'success', next: ['count'], interrupts: {} })
  t.same(ended.values, { steps: 1, numbers: [] })
})

t.test('interrupt and resume over two runs', async t => {
  for (const durability of ['sync', 'async', 'exit'] as const) {
    for (const answer of ['yes', { a: 1 }, false, null, 0]) {
      const spec = { graph_id: 'ask', thread_id: `ask-${durability}-${JSON.stringify(answer)}` }
      const first = await host.run({ ...spec, kwargs: { input: { question: 'ok?' }, durability, temporary: false } })
      const [interrupt] = Object.values(first.interrupts).flat()
      t.match(interrupt, { value: { question: 'ok?' } })
      t.match(first.rest, {
        next: ['node'],
        interrupts: [interrupt],
        tasks: [{ name: 'node', interrupts: [interrupt] }],
      } as never)
      const second = await host.run({ ...spec, kwargs: { command: { resume: answer }, durability, temporary: false } })
      t.match(second, { status: 'success', next: [], interrupts: {} })
      t.same(second.values, { question: 'ok?', answer: { given: answer } }, `${durability} ${JSON.stringify(answer)}`)
    }
  }
})

t.test('a subgraph interrupts and resumes', async t => {
  const spec = { graph_id: 'nested', thread_id: 'nested' }
  const first = await host.run({ ...spec, kwargs: { input: { numbers: [] }, temporary: false } })
  const ns = `sub:${Object.keys(first.interrupts)[0]}`
  t.match(first.rest, { tasks: [{ name: 'sub', checkpoint: { checkpoint_ns: ns, thread_id: 'nested' } }] } as never)
  const call = { verb: 'state' as const, ...spec, config: {} }
  const { json: outer } = await host.call({ ...call, subgraphs: true })
  t.match(outer, {
    values: { numbers: [1] },
    tasks: [{ checkpoint: null, state: { values: { numbers: [1, 2] }, next: ['asking'] } }],
  })
  const { json: inner } = await host.call({ ...call, checkpoint: { checkpoint_ns: ns } })
  t.match(inner, { values: { numbers: [1, 2] }, checkpoint: { checkpoint_ns: ns } })
  const second = await host.run({ ...spec, kwargs: { command: { resume: 0 }, temporary: false } })
  t.same(second.values, { numbers: [1, 1, 2, 0] })
})

t.test('a call reads the final state of a stateful run', async t => {
  const spec = { graph_id: 'counter', thread_id: 'lasting' }
  const metadata = { mine: 'x', langgraph_auth_user_id: 'secret', assistant_id: 'a' }
  const ended = await host.run({
    ...spec,
    run_id: 'lasting',
    metadata,
    kwargs: { input: { steps: 3 }, temporary: false },
  })
  t.equal(ended.head, host.store.checkpoints.filter(row => row.thread === 'lasting' && row.ns === '').at(-1)!.id)
  const { json } = await host.call({ verb: 'state', ...spec, config: {} })
  t.same(json, { values: ended.values, ...ended.rest }, 'the finish says the same as a fresh read')
  t.match(ended.rest, {
    metadata: { mine: 'x', run_id: 'lasting', source: 'loop', assistant_id: 'a' },
    next: [],
    tasks: [],
  } as never)
  t.notMatch(JSON.stringify(ended.rest), /secret/)
  t.equal(host.store.checkpoints.filter(row => row.thread === 'lasting').length, 5)
  const again = await host.run({ ...spec, kwargs: { input: { steps: 4 }, temporary: false } })
  t.same(again.values, { steps: 4, numbers: [1, 2, 3, 4] })
  const past = await host.call({ verb: 'state', ...spec, checkpoint: { checkpoint_id: ended.head! }, config: {} })
  t.match(past.json, { values: { numbers: [1, 2, 3] }, checkpoint: { checkpoint_id: ended.head } })
  const missing = await host.call({ verb: 'state', ...spec, checkpoint: { checkpoint_id: 'none' }, config: {} })
  t.match(missing, { flags: 1, json: { code: 'not_found' } })
  const empty = await host.call({ verb: 'state', ...spec, thread_id: 'never', config: {} })
  t.match(empty.json, { values: {}, next: [], tasks: [], checkpoint: null, created_at: null })
})

t.test('a run starts from a chosen checkpoint; the newest one causes no fork', async t => {
  const spec = { graph_id: 'counter', thread_id: 'fork' }
  const first = await host.run({ ...spec, kwargs: { input: { steps: 2 }, temporary: false } })
  const before = host.store.checkpoints.filter(row => row.thread === 'fork').at(-2)!
  const at = (checkpoint_id: string) => ({
    config: { configurable: { checkpoint_id, checkpoint_map: null } },
    temporary: false,
  })
  const forked = await host.run({ ...spec, kwargs: at(before.id) })
  t.same(forked.values, { steps: 2, numbers: [1, 2] })
  t.not(forked.head, first.head)
  const count = host.store.checkpoints.length
  const same = await host.run({ ...spec, kwargs: at(forked.head!) })
  t.equal(same.head, forked.head, 'nothing to do at the end')
  t.equal(host.store.checkpoints.length, count)
})

t.test('a second attempt continues from the stored state of the first', async t => {
  const spec = { graph_id: 'counter', thread_id: 'attempts', run_id: 'attempts' }
  await host.run({ ...spec, kwargs: { input: { steps: 5 }, interrupt_after: ['count'], temporary: false } })
  const again = await host.run({ ...spec, attempt: 2, kwargs: { input: { steps: 5 }, temporary: false } })
  t.same(again.values, { steps: 5, numbers: [1, 2, 3, 4, 5] })
  const other = await host.run({
    ...spec,
    run_id: 'other',
    attempt: 2,
    kwargs: { input: { steps: 6 }, temporary: false },
  })
  t.same(other.values, { steps: 6, numbers: [1, 2, 3, 4, 5, 6] }, 'of another run: its own input')
})

t.test('a refused save stops the run silently', async t => {
  host.refuse(1)
  const ended = await host.run({
    graph_id: 'counter',
    kwargs: { input: { steps: 20 }, durability: 'sync', temporary: false },
  })
  t.match(ended, { status: 'interrupted', error: null, values_size: 0, rest_size: 0, save_size: 0 })
  t.notOk(names(ended).includes('error'))
  host.refuse(2)
  const failed = await host.run({
    graph_id: 'counter',
    kwargs: { input: { steps: 20 }, durability: 'sync', temporary: false },
  })
  host.refuse(0)
  t.match(failed, { status: 'error', error: { message: 'The store did not answer' }, save_size: 0 })
})

t.test('what cannot be read costs its run and not the host', async t => {
  const other = await startHost(appOf('basic'))
  t.teardown(() => other.stop())
  await other.hello
  const whole = other.run({ graph_id: 'factory', kwargs: { input: { who: '' } } })
  const head = { graph_id: 'factory', attempt: 1, first_id: 0, first_seq: 1, metadata: {}, events: false, kwargs: null }
  const bad = await Promise.all([other.startRaw(Buffer.from('x')), other.startRaw(pack(head))])
  t.match(bad, [
    { status: 'error', last_event_id: -1, error: { error: 'RangeError' } },
    { status: 'error', error: { error: 'TypeError' } },
  ])
  t.equal(await other.callRaw(Buffer.from('{')), 1)
  t.match(await whole, { status: 'success' })
  t.match(await other.run({ graph_id: 'factory', kwargs: { input: { who: '' } } }), { status: 'success' })
})

t.test('values that JSON lacks do not fail the run', async t => {
  const ended = await host.run({ graph_id: 'odd', kwargs: { stream_mode: ['updates'], input: { value: 0 } } })
  t.match(ended.values, { value: { big: '12', map: { a: 1 }, set: [1], lone: 'a\ufffdb', self: '[Circular]' } })
})

t.test('factories, builders, promises and agents', async t => {
  const who = (name: string) => ({ input: { who: '' }, config: { configurable: { who: name } } })
  const runs = await Promise.all(['a', 'b'].map(name => host.run({ graph_id: 'factory', kwargs: who(name) })))
  t.same(
    runs.map(({ values }) => values),
    [{ who: 'a' }, { who: 'b' }],
  )
  for (const [context, who] of [
    [{ name: 'c' }, 'c'],
    [null, 'nobody'],
  ] as const) {
    const { values } = await host.run({ graph_id: 'factory', kwargs: { input: { who: '' }, context } })
    t.same(values, { who })
  }
  for (const [graph_id, values] of [
    ['builder', { text: 'built' }],
    ['promised', { text: 'x', seen: 'x' }],
    ['agent', { text: 'x', seen: 'x' }],
  ] as const)
    t.same((await host.run({ graph_id, kwargs: { input: { text: 'x' } } })).values, values)
})

t.test('50 runs of 1,000 custom chunks each, in order and without gaps', async t => {
  const began = performance.now()
  const runs = await Promise.all(
    Array.from({ length: 50 }, () =>
      host.run({ graph_id: 'chunks', kwargs: { input: { count: 1000 }, stream_mode: ['custom'] } }),
    ),
  )
  t.comment(`${Math.round(50_000 / ((performance.now() - began) / 1000))} chunks/s`)
  t.ok(runs.every(({ events }) => events.length === 1001 && events.every(({ id }, i) => id === i)))
  t.ok(runs.every(run => dataOf(run, 'custom').every((data, i) => (data as { i: number }).i === i)))
})

t.test('large saves of a host are sent one after the other', async t => {
  const runs = await Promise.all(
    Array.from({ length: 4 }, () =>
      host.run({
        graph_id: 'large',
        kwargs: { input: { size: 2 * LARGE_FRAME }, temporary: false, durability: 'sync' },
      }),
    ),
  )
  t.ok(runs.every(({ status }) => status === 'success'))
  t.equal(host.largeSaves.most, 1)
})

t.test('a reader that pauses receives everything', async t => {
  const run = host.start({
    graph_id: 'chunks',
    kwargs: { input: { count: 3000, size: 10_000 }, stream_mode: ['custom', 'updates'] },
  })
  host.pipe.pause()
  await sleep(300)
  host.pipe.resume()
  const { events, status } = await run.ended
  t.equal(status, 'success')
  t.ok(events.length === 3002 && events.every(({ id }, i) => id === i))
})

t.test('a ping is answered with the lateness of the loop', async t => {
  t.ok((await host.ping()) < 200)
})

t.test('the TypeScript example: tokens, tools, approval, subgraph', async t => {
  const chat = await startHost(exampleApp)
  t.teardown(() => chat.stop())
  t.equal((await chat.hello).graphs[0]!.error, null)
  const ask = (content: string, kwargs = {}) =>
    chat.run({
      graph_id: 'agent',
      thread_id: 'chat',
      kwargs: {
        input: human(content),
        temporary: false,
        stream_mode: ['messages-tuple', 'custom'],
        config: { configurable: { delay_ms: 1 } },
        ...kwargs,
      },
    })
  const last = ({ values }: Ended) => (values as { messages: { content: string }[] }).messages.at(-1)!.content
  const tokens = (ended: Ended) =>
    (dataOf(ended, 'messages') as [{ type: string; content: string }][]).filter(([{ type }]) => type === 'ai')
  const hello = await ask('hello')
  t.equal(
    tokens(hello)
      .map(([{ content }]) => content)
      .join(''),
    last(hello),
  )
  t.ok(tokens(hello).length > 10)
  t.match(last(await ask('what is the weather in Oslo?')), /weather in Oslo is/)
  t.match(last(await ask('calculate 6 * (3 + 4)')), /= 42/)
  const research = await ask('research tides', { stream_subgraphs: true })
  t.same(
    research.events.filter(({ event }) => event.startsWith('custom|research:')).map(({ data }) => data),
    [
      { step: 'outline', points: 3 },
      { step: 'write', points: 3 },
    ],
  )
  const asking = await ask('please book a table')
  t.match(Object.values(asking.interrupts).flat(), [{ value: { action: 'book', question: 'May I book a table?' } }])
  t.match(
    last(await ask('', { input: null, command: { resume: { approved: false, note: 'too late' } } })),
    /refused: too late/,
  )
})

t.test('the host exits when its parent ends', async t => {
  const gone = new Promise(resolve => host.child.once('exit', resolve))
  host.pipe.destroy()
  t.equal(await gone, 0)
  // The two cancelled runs above have a node that ignores its signal.
  const reports = /^(A node ignores config\.signal|That node has ended).*\n/gm
  t.same({ ...host.output, stderr: host.output.stderr.replace(reports, '') }, { stdout: '', stderr: '' })
})
