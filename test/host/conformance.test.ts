/**
 * The contract of a host (docs/pipe.md) on both hosts, through the pipe: the same graphs, the same rows, the same answers.
 * A row whose answer differs on purpose says so.
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../cli/root.js'
import { python314 } from '../../scripts/checks/python-3.14.js'
import { newestPython, venvBy, venvOf } from '../../scripts/checks/venv.js'
import { programOf } from '../../workers/child/languages.js'
import { ANSWER } from '../../workers/pipe.js'
import { until } from '../helpers/until.js'
import { appOf, type Ended, type RunSpec, startHost } from './host-helper.js'

type Host = Awaited<ReturnType<typeof startHost>>
type Row = {
  title: string
  act(host: Host): Promise<unknown>
  expected: unknown
  /** The answer of the Python host, and the reason. */
  python?: { expected: unknown; because: string }
}

// The first run on a machine makes three environments.
t.setTimeout(600_000)

let runs = 0
const run = (host: Host, spec: RunSpec) => host.run({ run_id: newRunId(), thread_id: `t${runs}`, ...spec })
const newRunId = () => `00000000-0000-4000-8000-${String(++runs).padStart(12, '0')}`
const stored = { temporary: false } as const
const namesOf = ({ events }: Ended) => events.map(({ event }) => event)
const lastOf = ({ events }: Ended, name: string) => events.findLast(({ event }) => event === name)?.data
const GRAPH_CALL = { graph_id: 'counter', config: {} }

/** 32 MB. */
const LARGE_CHUNKS = 64
const LARGE_CHUNK = 512 * 1024

/** Reads 64 KB in 5 ms, until the function that it returns is called. */
function readSlowly({ pipe }: Host): () => void {
  const rest = () => {
    pipe.pause()
    setTimeout(() => pipe.resume(), 5)
  }
  pipe.on('data', rest)
  pipe.resume()
  return () => pipe.off('data', rest)
}

const rows: Row[] = [
  {
    title: 'events in order, ids without a gap, metadata first',
    async act(host) {
      const kwargs = { input: { steps: 2 }, stream_mode: ['values', 'updates'] as ['values', 'updates'] }
      const ended = await run(host, { graph_id: 'counter', first_id: 7, kwargs })
      return {
        names: namesOf(ended),
        ids: ended.events.map(({ id }) => id),
        last: lastOf(ended, 'values'),
        end: ended.values,
      }
    },
    expected: {
      names: ['metadata', 'values', 'updates', 'values', 'updates', 'values'],
      ids: [7, 8, 9, 10, 11, 12],
      last: { steps: 2, numbers: [1, 2] },
      end: { steps: 2, numbers: [1, 2] },
    },
  },
  {
    title: 'an error is the last event, and its finish',
    async act(host) {
      const ended = await run(host, { graph_id: 'fail', kwargs: { input: {} } })
      return [ended.status, ended.error, ended.events.at(-1)?.event, ended.events.at(-1)?.data]
    },
    expected: [
      'error',
      { error: 'TooBadError', message: 'too bad' },
      'error',
      { error: 'TooBadError', message: 'too bad' },
    ],
  },
  {
    title: 'a pause shows its interrupt in the mode values',
    async act(host) {
      const ended = await run(host, { graph_id: 'ask', kwargs: { ...stored, input: { question: 'sure?' } } })
      const [interrupts] = Object.values(ended.interrupts)
      const { __interrupt__, ...others } = lastOf(ended, 'values') as { __interrupt__: { value: unknown }[] }
      return [ended.next, interrupts!.map(({ value }) => value), __interrupt__.map(({ value }) => value), others]
    },
    expected: [['node'], [{ question: 'sure?' }], [{ question: 'sure?' }], {}],
    python: {
      expected: [['node'], [{ question: 'sure?' }], [{ question: 'sure?' }], { question: 'sure?' }],
      because: 'its library yields the state together with the interrupt',
    },
  },
  {
    title: 'every answer resumes, also null, false, 0 and ""',
    async act(host) {
      const answers: unknown[] = []
      for (const resume of [null, false, 0, '', { a: 1 }]) {
        const thread_id = newRunId()
        await run(host, { graph_id: 'ask', thread_id, kwargs: { ...stored, input: { question: 'q' } } })
        const { values } = await run(host, { graph_id: 'ask', thread_id, kwargs: { ...stored, command: { resume } } })
        answers.push((values as { answer: { given: unknown } }).answer.given)
      }
      return answers
    },
    expected: [null, false, 0, '', { a: 1 }],
  },
  {
    title: 'strict_resume refuses an answer to no interrupt, which can be given then',
    async act(host) {
      const thread_id = newRunId()
      const spec = (kwargs: RunSpec['kwargs']) => ({ graph_id: 'ask', thread_id, kwargs: { ...stored, ...kwargs } })
      await run(host, spec({ input: { question: 'q' } }))
      const stale = { command: { resume: { ['0'.repeat(32)]: 'stale' } }, strict_resume: true }
      const { status, error } = await run(host, spec(stale))
      // Older libraries do not know it.
      const isRefused = error?.error === 'UnknownInterruptError' || /^strict_resume needs/.test(error?.message ?? '')
      const { values } = await run(host, spec({ command: { resume: 'yes' } }))
      return [status, isRefused, (values as { answer: unknown }).answer]
    },
    expected: ['error', true, { given: 'yes' }],
  },
  {
    title: 'lifecycle: the subgraphs of a run, and nothing else of theirs',
    async act(host) {
      const shown = ({ events }: Ended) =>
        events.slice(1).map(({ event, data }) => {
          const { namespace = [], ...rest } = data as { namespace?: string[] }
          return [event.replace(/:[0-9a-f-]{36}/g, ''), namespace.map(segment => segment.split(':')[0]), rest]
        })
      const nested = { graph_id: 'nested', kwargs: { ...stored, input: {}, stream_mode: ['lifecycle' as const] } }
      const modes = ['lifecycle' as const, 'custom' as const]
      const tool = { graph_id: 'delegate', kwargs: { ...stored, input: {}, stream_mode: modes } }
      return [shown(await run(host, nested)), shown(await run(host, tool))]
    },
    expected: [
      [
        ['lifecycle|sub', ['sub'], { event: 'started' }],
        ['lifecycle|sub', ['sub'], { event: 'interrupted' }],
      ],
      [
        ['lifecycle|tools', ['tools'], { event: 'started', tool_call_id: 'call-1' }],
        ['lifecycle|tools', ['tools'], { event: 'completed' }],
      ],
    ],
  },
  {
    title: 'sync saves before the finish, exit saves nothing before it, and async may do either',
    async act(host) {
      const counts: unknown[] = []
      for (const durability of ['sync', 'async', 'exit'] as const) {
        const before = host.store.saves
        const thread_id = newRunId()
        const { save } = await run(host, {
          graph_id: 'counter',
          thread_id,
          kwargs: { ...stored, durability, input: { steps: 3 } },
        })
        const saves = host.store.saves - before - (save.length > 0 ? 1 : 0)
        const { json } = await host.call({ ...GRAPH_CALL, verb: 'history', thread_id, limit: 100 })
        counts.push([durability === 'async' || saves > 0, (json as unknown[]).length])
      }
      return counts
    },
    expected: [
      [true, 5],
      [true, 5],
      [false, 1],
    ],
  },
  {
    title: 'a lost lease ends without state and without an error event',
    async act(host) {
      host.refuse(ANSWER.refused)
      const ended = await run(host, {
        graph_id: 'counter',
        kwargs: { ...stored, durability: 'sync', input: { steps: 2 } },
      })
      host.refuse(0)
      const { status, error, values, rest } = ended
      return [status, error, values ?? null, rest, namesOf(ended).includes('error')]
    },
    expected: ['interrupted', null, null, null, false],
  },
  {
    title: 'a store that fails is the error of the run, which reports no state',
    async act(host) {
      host.refuse(ANSWER.failed)
      const ended = await run(host, {
        graph_id: 'counter',
        kwargs: { ...stored, durability: 'sync', input: { steps: 2 } },
      })
      host.refuse(0)
      const { status, head, next } = ended
      return [status, head, next, namesOf(ended).at(-1)]
    },
    expected: ['error', null, [], 'error'],
  },
  {
    title: 'a repeated attempt continues from its own checkpoint',
    async act(host) {
      const spec = { graph_id: 'ask', thread_id: newRunId(), run_id: newRunId() }
      const kwargs = { ...stored, input: { question: 'once?' } }
      await run(host, { ...spec, kwargs })
      const again = await run(host, {
        ...spec,
        attempt: 2,
        first_id: 1e9,
        kwargs: { ...kwargs, input: { question: 'twice?' } },
      })
      const tasks = again.rest!.tasks as unknown as { interrupts: { value: unknown }[] }[]
      return [again.events[0]!.id, again.events[0]!.data, again.next, tasks[0]!.interrupts[0]!.value]
    },
    expected: [1e9, { run_id: '', attempt: 2 }, ['node'], { question: 'once?' }],
  },
  {
    title: 'a cancelled run is interrupted and leaves its state',
    async act(host) {
      const { ended, cancel } = host.start(
        { graph_id: 'slow', run_id: newRunId(), thread_id: newRunId(), kwargs: { ...stored, input: { ms: 60_000 } } },
        () => cancel(),
      )
      const { status, error, values } = await ended
      return [status, error, values]
    },
    expected: ['interrupted', null, { ms: 60_000 }],
  },
  {
    title: 'custom chunks keep their order',
    async act(host) {
      const { events } = await run(host, {
        graph_id: 'chunks',
        kwargs: { input: { count: 60 }, stream_mode: ['custom'] },
      })
      return events.filter(({ event }) => event === 'custom').map(({ data }) => (data as { i: number }).i)
    },
    expected: Array.from({ length: 60 }, (_, i) => i),
  },
  {
    title: 'custom chunks of a task belong to its graph, those of a subgraph to that',
    async act(host) {
      const written = async (stream_mode: NonNullable<RunSpec['kwargs']>['stream_mode'], stream_subgraphs: boolean) => {
        const kwargs = { ...stored, input: {}, stream_mode, stream_subgraphs }
        const { events } = await run(host, { graph_id: 'tasked', kwargs })
        return events.flatMap(({ event, data }) => (/^custom/.test(event) ? (data as { i: number }).i : []))
      }
      return [
        await written(['custom'], false),
        await written(['custom', 'updates'], false),
        await written(['custom', 'lifecycle'], false),
        await written(['custom'], true),
      ]
    },
    expected: [[1], [1], [1], [1, 2]],
  },
  {
    title: 'a short run is not behind the megabytes of another one while the reader is slow',
    async act(host) {
      const chunks = (input: { [key: string]: unknown }) => ({ input, stream_mode: ['custom' as const] })
      const written = (word: string) => until(() => host.output.stdout.includes(word))
      let arrived = 0
      host.pipe.pause()
      const input = { count: LARGE_CHUNKS, size: LARGE_CHUNK, say: 'the large run has written' }
      const large = host.start({ graph_id: 'chunks', run_id: newRunId(), kwargs: chunks(input) }, ({ body }) => {
        arrived += body.length
      })
      await written(input.say)
      const { ended } = host.start({
        graph_id: 'chunks',
        run_id: newRunId(),
        kwargs: chunks({ count: 1, say: 'the short run has written' }),
      })
      await written('the short run has written')
      const atFullSpeed = readSlowly(host)
      const short = await ended
      const passed = arrived
      atFullSpeed()
      const { events, status } = await large.ended
      const numbers = events.flatMap(({ event, data }) => (event === 'custom' ? (data as { i: number }).i : []))
      return [short.status, passed < (LARGE_CHUNKS * LARGE_CHUNK) / 4, status, numbers]
    },
    expected: ['success', true, 'success', Array.from({ length: LARGE_CHUNKS }, (_, i) => i)],
  },
  {
    title: 'a paused run sends nothing, others go on, and it continues where it was',
    async act(host) {
      const input = { count: 100, delay_ms: 5 }
      const answers: unknown[] = []
      for (const stream_mode of [['custom' as const], ['custom' as const, 'updates' as const]]) {
        let arrived = 0
        let begin = () => {}
        const begun = new Promise<void>(resolve => (begin = resolve))
        const spec = { graph_id: 'chunks', run_id: newRunId(), kwargs: { input, stream_mode } }
        const { slot, ended } = host.start(spec, () => {
          arrived++
          begin()
        })
        await begun
        host.pause(slot)
        await host.ping()
        const before = arrived
        const other = await run(host, { graph_id: 'chunks', kwargs: { input, stream_mode } })
        const meanwhile = arrived - before
        host.resume(slot)
        const { status, events } = await ended
        const numbers = events.flatMap(({ event, data }) => (event === 'custom' ? (data as { i: number }).i : []))
        answers.push([
          other.status,
          meanwhile,
          status,
          numbers.join() === Array.from({ length: 100 }, (_, i) => i).join(),
        ])
      }
      return answers
    },
    expected: [
      ['success', 0, 'success', true],
      ['success', 0, 'success', true],
    ],
  },
  {
    title: 'a run that is cancelled while it is paused ends when it is resumed',
    async act(host) {
      const kwargs = { input: { count: 10_000, delay_ms: 5 }, stream_mode: ['updates' as const, 'custom' as const] }
      const spec = { graph_id: 'chunks', run_id: newRunId(), kwargs }
      let begin = () => {}
      const begun = new Promise<void>(resolve => (begin = resolve))
      const { slot, ended, cancel } = host.start(spec, () => begin())
      await begun
      host.pause(slot)
      await run(host, { graph_id: 'chunks', kwargs: { input: { count: 20, delay_ms: 5 } } })
      host.resume(slot)
      cancel()
      const { status, error } = await ended
      return [status, error]
    },
    expected: ['interrupted', null],
  },
  {
    title: 'tokens are the whole message',
    async act(host) {
      const kwargs = {
        input: { messages: [{ role: 'human', content: 'hi' }] },
        stream_mode: ['messages-tuple' as const],
      }
      const { events } = await run(host, { graph_id: 'model', kwargs })
      return events
        .flatMap(({ event, data }) => (event === 'messages' ? (data as [{ content: string }])[0].content : []))
        .join('')
    },
    expected: 'every token must arrive, also the last one.',
  },
  {
    title:
      'a resumable run reports each checkpoint of its thread behind the events before it, and streams no more than asked',
    async act(host) {
      const thread_id = newRunId()
      const kwargs = { ...stored, input: { steps: 2 }, resumable: true, stream_mode: ['updates', 'values'] as never }
      const ended = await run(host, { graph_id: 'counter', thread_id, kwargs })
      const ids = host.store.checkpoints.filter(({ thread }) => thread === thread_id).map(({ id }) => id)
      const namesUntil = (last: number) => ended.events.filter(({ id }) => id <= last).map(({ event }) => event)
      const others = [
        { kwargs: { ...kwargs, resumable: false } },
        { kwargs: { ...kwargs, temporary: true } },
        { kwargs, events: true },
      ].map(spec => run(host, { graph_id: 'counter', ...spec }))
      return {
        inOrder: ended.reported.map(({ checkpoint }) => ids.indexOf(checkpoint)),
        before: ended.reported.slice(1).map(({ after }) => namesUntil(after).slice(-2)),
        streamed: [...new Set(namesOf(ended))],
        ofOthers: (await Promise.all(others)).map(({ reported }) => reported.length),
      }
    },
    expected: {
      inOrder: [0, 1, 2, 3],
      before: [
        ['metadata', 'values'],
        ['updates', 'values'],
        ['updates', 'values'],
      ],
      streamed: ['metadata', 'values', 'updates'],
      ofOthers: [0, 0, 0],
    },
  },
  {
    title: 'subgraphs stream under their path, and the state has theirs',
    async act(host) {
      const thread_id = newRunId()
      const kwargs = { ...stored, input: {}, stream_mode: ['updates' as const], stream_subgraphs: true }
      const ended = await run(host, { graph_id: 'nested', thread_id, kwargs })
      const { json } = await host.call({ verb: 'state', graph_id: 'nested', config: {}, thread_id, subgraphs: true })
      const state = json as { tasks: { name: string; state: { next: string[] } }[] }
      const paths = namesOf(ended).map(name => name.replace(/:.*/, ':…'))
      return [paths.includes('updates|sub:…'), state.tasks[0]!.name, state.tasks[0]!.state.next]
    },
    expected: [true, 'sub', ['asking']],
  },
  {
    title: 'a factory is called with the config of the run',
    act: async host =>
      (await run(host, { graph_id: 'factory', kwargs: { input: {}, config: { configurable: { who: 'ada' } } } }))
        .values,
    expected: { who: 'ada' },
  },
  {
    title: 'refused calls have a code',
    async act(host) {
      const call = { ...GRAPH_CALL, verb: 'state' as const, thread_id: 'empty' }
      const codes: unknown[] = []
      for (const each of [
        { ...call, graph_id: 'absent' },
        { ...call, checkpoint: { checkpoint_id: 'absent' } },
      ]) {
        const { flags, json } = await host.call(each)
        codes.push([flags, (json as { code: string }).code])
      }
      return codes
    },
    expected: [
      [1, 'not_found'],
      [1, 'not_found'],
    ],
  },
  {
    title: 'a drawing has the nodes and edges of the graph',
    async act(host) {
      const { json } = await host.call({ verb: 'draw', graph_id: 'nested', config: {}, thread_id: '', xray: false })
      const { nodes, edges } = json as { nodes: { id: string }[]; edges: { source: string; target: string }[] }
      return [nodes.map(({ id }) => id).sort(), edges.length]
    },
    expected: [['__end__', '__start__', 'outside', 'sub'], 3],
  },
  {
    title: 'a ping is answered',
    act: async host => (await host.ping()) >= 0,
    expected: true,
  },
]

/** Ids of runs are new in each host. */
const comparable = (value: unknown): unknown =>
  JSON.parse(JSON.stringify([value]), (key, member) => (key === 'run_id' ? '' : member))[0]

async function check(
  t: { same(found: unknown, wanted: unknown, title: string): unknown },
  host: Host,
  language: 'javascript' | 'python',
) {
  for (const { title, act, expected, python } of rows) {
    const answer = comparable(await act(host))
    const differs = language === 'python' && python !== undefined
    t.same(answer, comparable(differs ? python.expected : expected), differs ? `${title} (${python.because})` : title)
  }
}

t.test('the host for JavaScript', async t => {
  const host = await startHost(appOf('basic'))
  t.teardown(() => host.stop())
  await host.hello
  await check(t, host, 'javascript')
})

/** The ends of the versions that docs/application.md names. */
const PYTHONS: { name: string; needs?: string; make(tools: string, t: Test): Promise<string> }[] = [
  { name: 'the newest langgraph', make: async tools => tools },
  {
    name: 'the oldest langgraph, on the oldest Python',
    needs: 'python3.11',
    make: tools => venvBy(tools, requirements('-oldest'), 'python3.11'),
  },
  {
    name: 'the newest langgraph, on the newest Python',
    make: async (tools, t) => {
      // Without a way to its packages the newest one that is installed is tested.
      const fetched = await python314(tools).catch(error => void t.comment(error.message))
      const newest = fetched ?? newestPython(['python3.13', 'python3.12']) ?? 'python3'
      return venvBy(tools, requirements('-newest'), newest)
    },
  },
]
const requirements = (age: string) => join(root, `test/host-python/requirements${age}.txt`)

for (const { name, needs = 'python3', make } of PYTHONS) {
  const skip = newestPython([needs]) === null ? `${needs} is not installed` : false
  t.test(`the host for Python with ${name}`, { skip }, async t => {
    const python = await make(await venvOf(requirements('')), t)
    const app = appOf('basic-py')
    const program = programOf('python', { app, env: {}, memory_mb: 1_024, node: '', python, threads: 64 })
    const host = await startHost(app, {}, [], program)
    t.teardown(() => host.stop())
    const hello = await host.hello
    t.same(
      hello.graphs.filter(({ error }) => error !== null),
      [],
    )
    await check(t, host, 'python')
  })
}
