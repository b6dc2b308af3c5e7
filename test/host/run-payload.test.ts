import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Command, RunKwargs, StreamMode } from '../../schemas/runs.js'
import { configOf } from '../../workers/host/input.js'
import { appOf, type Ended, startHost } from './host-helper.js'

/** How long a node takes that is expected to be stopped, or left, before its end. */
const NODE_MS = 2_000

const host = await startHost(appOf('basic'))
await host.hello
t.teardown(() => host.stop())

const names = ({ events }: Ended) => events.map(({ event }) => event)
const pathOf = ({ values }: Ended) => (values as { path: string[] }).path
const stored = (thread: string) => host.store.checkpoints.filter(row => row.thread === thread)

let threads = 0
/** Runs on one stateful thread. */
function thread(graph_id: string) {
  const thread_id = `payload-${++threads}`
  return {
    thread_id,
    run: (kwargs: Partial<RunKwargs>) => host.run({ graph_id, thread_id, kwargs: { temporary: false, ...kwargs } }),
    start: (kwargs: Partial<RunKwargs>) => host.start({ graph_id, thread_id, kwargs: { temporary: false, ...kwargs } }),
    state: async (checkpoint_id?: string) =>
      (
        await host.call({
          verb: 'state',
          graph_id,
          thread_id,
          config: {},
          ...(checkpoint_id === undefined ? {} : { checkpoint: { checkpoint_id } }),
        })
      ).json as { next: string[]; values: unknown },
  }
}

t.test('command: update as object or pairs, goto as name, Send or list, resume, all at once', async t => {
  const cases: [Command, string[]][] = [
    [{ goto: 'b' }, ['b']],
    [{ goto: ['b', 'c'] }, ['b', 'c']],
    [{ goto: { node: 'b', input: { item: 'one' } } }, ['b one']],
    [{ goto: { node: 'c' } }, ['c']],
    [{ goto: ['c', { node: 'b', input: { item: 'two' } }] }, ['b two', 'c']],
    [{ update: { path: ['u'] }, goto: 'b' }, ['b', 'u']],
    [
      {
        update: [
          ['path', ['p']],
          ['path', ['q']],
        ],
        goto: 'c',
      },
      ['c', 'p', 'q'],
    ],
    [{ resume: 'home' }, ['answer home']],
    [{ resume: 'home', update: { path: ['u'] }, goto: 'b' }, ['answer home', 'b', 'u']],
    [{ resume: 'home', update: null, goto: [] }, ['answer home']],
  ]
  for (const [command, path] of cases) {
    const { run } = thread('orders')
    t.match(await run({ input: { note: 'x' } }), { next: ['ask'] })
    const ended = await run({ command })
    t.match(ended, { status: 'success', error: null }, JSON.stringify(command))
    t.same(pathOf(ended).toSorted(), path, JSON.stringify(command))
  }
})

t.test('a command takes precedence over the input; an empty command is ignored', async t => {
  const { run } = thread('orders')
  await run({ input: { note: 'x' } })
  t.same(pathOf(await run({ input: { path: ['input'] }, command: { resume: 1 } })), ['answer 1'])
  for (const command of [{}, { goto: [] }, { update: {} }, { update: [] }, { update: null, goto: null }] as Command[]) {
    const other = thread('steps')
    t.same(pathOf(await other.run({ input: { note: 'x' }, command })), ['a', 'b', 'c'], JSON.stringify(command))
  }
})

t.test('breakpoints stop this run only, and the last values event is an empty interrupt', async t => {
  const cases: [Partial<RunKwargs>, string[], string[]][] = [
    [{ interrupt_before: ['b'] }, ['a'], ['b']],
    [{ interrupt_after: ['b'] }, ['a', 'b'], ['c']],
    [{ interrupt_before: '*' }, [], ['a']],
    [{ interrupt_after: '*' }, ['a'], ['b']],
    [{ interrupt_before: [] }, ['a', 'b', 'c'], []],
  ]
  for (const durability of ['sync', 'async', 'exit'] as const) {
    for (const [kwargs, path, next] of cases) {
      const { run, state } = thread('steps')
      const ended = await run({ input: { note: 'x' }, durability, ...kwargs })
      t.match(ended, { status: 'success', error: null, interrupts: {} })
      t.same(ended.next, next)
      t.same(pathOf(ended), path)
      if (next.length === 0) continue
      t.same(ended.events.at(-1), { id: ended.last_event_id, event: 'values', data: { __interrupt__: [] } })
      t.same((await state()).next, next)
      t.match(ended.rest, { tasks: [{ name: next[0], interrupts: [] }] } as never)
      const again = await run({ input: null, durability })
      t.match(again, { next: [], status: 'success' })
      t.same(pathOf(again), ['a', 'b', 'c'])
    }
  }
  const { run } = thread('steps')
  await run({ input: { note: 'x' }, interrupt_before: ['b'] })
  t.same(pathOf(await run({ command: { resume: 'go' } })), ['a', 'b', 'c'], 'resume continues from a breakpoint')
  const quiet = await thread('steps').run({ input: { note: 'x' }, interrupt_before: ['b'], stream_mode: ['updates'] })
  t.same(quiet.events.at(-1)!.data, { __interrupt__: [] })
  t.same(pathOf(quiet), ['a'])
})

t.test('a run starts from its checkpoint: replay, fork; the newest causes no fork', async t => {
  const { run, thread_id, state } = thread('steps')
  const first = await run({ input: { note: 'x' } })
  const [, , afterA, afterB, newest] = stored(thread_id).map(({ id }) => id)
  const at = (checkpoint_id: string | undefined, more = {}) => ({
    config: { configurable: { checkpoint_id, ...more } },
  })
  t.equal(first.head, newest)

  const replay = await run({ input: null, ...at(afterA) })
  t.same(pathOf(replay), ['a', 'b', 'c'])
  t.not(replay.head, newest)
  t.match(await state(), { values: { path: ['a', 'b', 'c'] }, next: [] })
  const custom = await run({ input: null, stream_mode: ['custom'], ...at(afterA) })
  t.same(
    custom.events.slice(1).map(({ data }) => data),
    [{ at: 'b' }, { at: 'c' }],
    'what came before the checkpoint does not run again',
  )

  const forked = await run({ input: { note: 'forked' }, ...at(afterB) })
  t.same(forked.values, { path: ['a', 'b', 'a', 'b', 'c'], note: 'forked' })
  t.same((await state(newest)).values, { path: ['a', 'b', 'c'], note: 'x' }, 'the other branch stays')

  const head = forked.head!
  const before = stored(thread_id).length
  const same = await run({ input: null, ...at(head, { checkpoint_ns: '', checkpoint_map: null }) })
  t.equal(same.head, head)
  t.equal(stored(thread_id).length, before)
  const turn = await run({ input: { note: 'turn' }, ...at(head, { checkpoint_map: { '': head } }) })
  t.same(pathOf(turn), ['a', 'b', 'a', 'b', 'c', 'a', 'b', 'c'])

  const waiting = thread('orders')
  const paused = await waiting.run({ input: { note: 'x' } })
  t.same(pathOf(await waiting.run({ command: { resume: 1 }, ...at(paused.head!) })), ['answer 1'])
})

t.test('a checkpoint of a subgraph: the newest causes no fork, a run continues from another', async t => {
  const numbers = ({ values }: Ended) => (values as { numbers: number[] }).numbers
  const choose = async (place: number, kwargs: Partial<RunKwargs>, withMap = true) => {
    const { run, thread_id } = thread('nested')
    const paused = await run({ input: { numbers: [] } })
    const checkpoint_ns = `sub:${Object.keys(paused.interrupts)[0]}`
    const checkpoint_id = stored(thread_id)
      .filter(row => row.ns === checkpoint_ns)
      .at(place)!.id
    const checkpoint_map = { '': paused.head, [checkpoint_ns]: checkpoint_id }
    const chosen = { checkpoint_ns, checkpoint_id, ...(withMap ? { checkpoint_map } : {}) }
    return run({
      config: { configurable: chosen as never },
      stream_mode: ['updates'],
      stream_subgraphs: true,
      ...kwargs,
    })
  }
  for (const withMap of [true, false]) {
    const ended = await choose(-1, { command: { resume: 5 } }, withMap)
    t.same(ended.next, [])
    t.same(numbers(ended), [1, 1, 2, 5])
  }
  const replayed = await choose(-2, { input: null })
  t.same(replayed.next, ['sub'])
  t.match(
    replayed.events.find(({ event }) => event.startsWith('updates|sub:')),
    { data: { inside: { numbers: [2] } } },
    'the node before the question runs again',
  )
})

t.test('durability: which checkpoints are stored', async t => {
  const counts: { [durability: string]: number } = { sync: 5, async: 5, exit: 1 }
  for (const durability of ['sync', 'async', 'exit'] as const) {
    const { run, thread_id } = thread('steps')
    const ended = await run({ input: { note: 'x' }, durability, stream_mode: ['checkpoints'] })
    t.equal(stored(thread_id).length, counts[durability])
    t.equal(names(ended).filter(name => name === 'checkpoints').length, 5, 'the mode tells all of them')
  }
  const { run, thread_id } = thread('fail')
  t.match(await run({ input: { message: 'x' }, durability: 'exit' }), { status: 'error', next: ['bad'] })
  t.equal(stored(thread_id).length, 1)
})

t.test('feedback keys are accepted and send nothing', async t => {
  const ended = await thread('echo').run({ input: { text: 'x' }, feedback_keys: ['up', 'down'] })
  t.same(names(ended), ['metadata', 'values', 'values'])
})

t.test('config and context reach the node in their separate places', async t => {
  const seen_config = async (kwargs: Partial<RunKwargs>) =>
    ((await thread('seen_config').run({ input: { ask: 1 }, ...kwargs })).values as { seen_config: never }).seen_config
  t.match(
    await seen_config({
      config: { tags: ['one'], recursion_limit: 7, metadata: { mine: 1 }, configurable: { a: 1, assistant_id: 'as' } },
      context: { b: 2 },
    }),
    {
      configurable: { a: 1, graph_id: 'seen_config', thread_id: /^payload/, run_id: /^run-/, assistant_id: 'as' },
      context: { b: 2 },
      tags: ['one'],
      recursionLimit: 7,
      metadata: { mine: 1, graph_id: 'seen_config', run_attempt: 1, assistant_id: 'as' },
    },
  )
  t.match(
    await seen_config({ config: { configurable: { a: 1 } } }),
    { context: { a: 1 }, configurable: { a: 1 } },
    'mirrored',
  )
  t.same(((await seen_config({})) as { context: unknown }).context, {}, 'without any it is empty')
  t.match(await seen_config({ context: { b: 2 } }), { context: { b: 2 }, configurable: { b: 2 } })
  t.match(await seen_config({ config: { configurable: { __pregel_read: 'x', a: 1 } } }), { configurable: { a: 1 } })
})

t.test('a client does not set the prototype of a config', async t => {
  const configurable = JSON.parse('{"__proto__": {"langgraph_auth_user_id": "mallory", "__pregel_read": 1}, "a": 1}')
  const start = { kwargs: { config: { configurable } }, metadata: {}, attempt: 1, run_id: 'r', thread_id: 't' }
  const { configurable: read } = configOf({ ...start, graph_id: 'g' } as never)
  t.equal(read.a, 1)
  for (const name of ['langgraph_auth_user_id', '__pregel_read']) t.notOk(name in read, name)
})

t.test('errors: class and message of any thrown value at any place', async t => {
  const cases: [string, { error: string; message: string }][] = [
    ['string', { error: 'Error', message: 'just text' }],
    ['empty', { error: 'Error', message: '' }],
    ['undefined', { error: 'Error', message: 'undefined' }],
    ['null', { error: 'Error', message: 'null' }],
    ['number', { error: 'Error', message: '0' }],
    ['object', { error: 'Strange', message: '{"code":7}' }],
    ['bare', { error: 'BareError', message: '' }],
    ['nested', { error: 'TypeError', message: 'with a cause' }],
  ]
  for (const graph_id of ['throws', 'throwsBelow']) {
    for (const [kind, error] of cases) {
      for (const stream_mode of [['values'], ['events'], ['custom']] as StreamMode[][]) {
        const ended = await thread(graph_id).run({ input: { kind }, stream_mode })
        t.match(ended, { status: 'error', error, next: ['node'] }, `${graph_id} ${kind} ${stream_mode}`)
        t.same(ended.events.at(-1), { id: ended.last_event_id, event: 'error', data: error })
        t.same(ended.values, { kind })
      }
    }
  }
  const limit = await thread('steps').run({ input: { note: 'x' }, config: { recursion_limit: 2 } })
  t.match(limit, { status: 'error', error: { error: 'GraphRecursionError', message: /Recursion limit of 2 reached/ } })
})

t.test('a value that cannot be rendered is an error of its run, which stops at once', async t => {
  for (const stream_mode of [['custom', 'values'], ['events', 'custom'], ['custom']] as StreamMode[][]) {
    const began = performance.now()
    const ended = await thread('unshowable').run({ input: { ms: NODE_MS }, stream_mode })
    t.match(ended, { status: 'error', error: { error: 'RangeError', message: 'not to be shown' } })
    t.ok(performance.now() - began < NODE_MS, 'before the end of its node')
  }
  await sleep(NODE_MS + 50)
  t.equal(host.child.exitCode, null, 'and what its node throws afterwards harms no other run')
})

t.test('large values pass; a value beyond the limit fails its run only', async t => {
  const MB = 1_000_000
  const large = (size: number, kwargs: Partial<RunKwargs>, parts = 1) => {
    const { run, thread_id } = thread('large')
    return run({ input: { size, parts }, ...kwargs }).then(ended => ({ ended, thread_id }))
  }
  const lengths = ({ events }: Ended) =>
    events.map(({ event, data }) => `${event} ${Math.round(JSON.stringify(data).length / MB)}`)
  const small = await large(17 * MB, { temporary: true })
  t.same(lengths(small.ended), ['metadata 0', 'values 0', 'values 17', 'values 17'])
  t.ok(
    small.ended.frames.every(({ count, bytes }) => count === 1 || bytes <= 512 * 1024),
    'it is sent alone',
  )

  for (const kwargs of [{ temporary: true }, { durability: 'async' as const }, { durability: 'exit' as const }]) {
    const { ended, thread_id } = await large(60 * MB, { stream_mode: ['updates'], ...kwargs })
    t.match(ended, { status: 'success', error: null, next: [], values: { after: true } })
    t.equal((ended.values as { a: string }).a.length, 60 * MB)
    if ('temporary' in kwargs) continue
    t.equal(ended.head, stored(thread_id).at(-1)!.id)
  }

  for (const [parts, size] of [
    [1, 70 * MB],
    [2, 40 * MB],
  ] as const) {
    for (const durability of ['sync', 'async', 'exit'] as const) {
      for (const temporary of [true, false]) {
        if (temporary && durability !== 'async') continue
        const { ended, thread_id } = await large(size, { durability, temporary }, parts)
        t.match(ended, {
          status: 'error',
          error: { error: 'StateTooLarge' },
          head: null,
          values: undefined,
          save_size: 0,
        })
        t.same(names(ended).at(-1), 'error')
        t.ok(
          ended.events.every(({ data }) => JSON.stringify(data).length < MB),
          'no event is half of it',
        )
        const rows = stored(thread_id)
        t.equal(rows.length, temporary || durability === 'exit' ? 0 : 2, 'the checkpoints before it are whole')
        for (const { id } of rows)
          t.same(
            (
              await host.call({
                verb: 'state',
                graph_id: 'large',
                thread_id,
                checkpoint: { checkpoint_id: id },
                config: {},
              })
            ).flags,
            0,
          )
      }
    }
  }
  const event = await large(70 * MB, { stream_mode: ['events'], temporary: true })
  t.match(event.ended, { status: 'error', error: { error: 'StateTooLarge' }, values: { size: 70 * MB } })
  t.same((await thread('echo').run({ input: { text: 'alive' } })).values, { text: 'alive', seen: 'alive' })
  t.equal(host.child.exitCode, null)
})

t.test('a cancel reaches nodes, subgraphs and the events mode, and no further node starts', async t => {
  for (const stream_mode of [['values'], ['events'], ['custom'], ['custom', 'updates']] as StreamMode[][]) {
    for (const [ms, where, next] of [
      [NODE_MS, 'first', ['first']],
      [60, 'inner', ['sub']],
    ] as const) {
      const { thread_id, start } = thread('signals')
      const { ended, cancel } = start({ input: { name: thread_id, ms, slow: where }, stream_mode })
      while (!host.output.stdout.includes(`${thread_id} ${where} starts`)) await sleep(5)
      const began = performance.now()
      cancel()
      const end = await ended
      t.ok(performance.now() - began < NODE_MS, 'before the end of its node')
      t.match(end, { status: 'interrupted', error: null, next })
      t.notOk(names(end).includes('error'))
      await sleep(50)
      const said = host.output.stdout.split('\n').filter(line => line.startsWith(`${thread_id} `))
      t.equal(said.at(-1), `${thread_id} ${where} hears it`)
      t.same(said.filter(line => line.endsWith('starts')).at(-1), `${thread_id} ${where} starts`)
    }
  }
  const { start } = thread('deaf')
  const run = start({ input: { ms: 1500 } })
  while (!host.output.stdout.includes('deaf first')) await sleep(5)
  run.cancel()
  t.match(await run.ended, { status: 'interrupted', next: ['first'] })
  await sleep(1700)
  t.notMatch(host.output.stdout, /deaf second/)
})

t.test('stderr names only the node that ignores its signal', async t => {
  const reports =
    /^(A node ignores config\.signal|That node has ended).*\(graph deaf, .*\n|^No URLs for feedback_keys of run .*\n/gm
  t.equal(host.output.stderr.replace(reports, ''), '')
})
