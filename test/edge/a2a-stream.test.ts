/** Streams of A2A tasks where the time between two requests of the edge to the API matters. */
import { Readable } from 'node:stream'
import t from 'tap'
import type { Agent } from '../../edge/protocols/a2a-agent.js'
import { streamTask } from '../../edge/protocols/a2a-stream.js'
import type { RpcAnswer } from '../../edge/protocols/rpc-answer.js'

const ASSISTANT = '0198aaaa-0000-7000-8000-000000000001'
const THREAD = '0198aaaa-0000-7000-8000-000000000002'
const FIRST = '0198aaaa-0000-7000-8000-000000000003'
const SECOND = '0198aaaa-0000-7000-8000-000000000004'
const runOf = (run_id: string, status: string, metadata = {}) => ({
  run_id,
  thread_id: THREAD,
  assistant_id: ASSISTANT,
  status,
  updated_at: '2026-01-01T00:00:00.000Z',
  metadata,
  kwargs: { input: {} },
})

/** An API with these answers, in order for each path. */
function fakeAgent(streams: Readable[], answers: { [path: string]: object[] }): Agent {
  const self = {
    open: async () => Object.assign(streams.shift()!, { statusCode: 200 }),
    async ask(_: unknown, { path }: { path: string }) {
      const [name, list] = Object.entries(answers).find(([part]) => path.includes(part))!
      if (list.length === 0) throw new Error(`one request too many for ${name}`)
      return { status: 200, text: JSON.stringify(list.length === 1 ? list[0] : list.shift()) }
    },
  }
  return { edge: { self }, version: '0.3', assistant: { assistant_id: ASSISTANT } } as unknown as Agent
}

// biome-ignore lint/suspicious/noExplicitAny: events of two versions
type Event = any
function collector() {
  const events: Event[] = []
  const answer = {
    begin() {},
    end: () => void events.push('end'),
    event: async (result: object, id?: string) => void events.push({ ...result, event: id }),
  }
  return { events, answer: answer as unknown as RpcAnswer }
}
const says = (...words: string[]) =>
  Readable.from(
    words.map((word, i) => `event: messages\nid: ${i}\ndata: [{"type":"AIMessageChunk","content":"${word}"},{}]\n\n`),
  )
const shown = { history: 0, scope: 'context', artifacts: true } as const

t.test('a task that is resumed before its stream has ended goes on in it', async t => {
  const resumed = { a2a_task_id: FIRST }
  const agent = fakeAgent([says('one'), says('two')], {
    [`/runs/${FIRST}`]: [runOf(FIRST, 'success')],
    [`/runs/${SECOND}/join`]: [{ messages: [] }],
    '/runs?': [[runOf(SECOND, 'running', resumed)], [runOf(SECOND, 'success', resumed)]],
    '/state': [{ values: { messages: [{ type: 'ai', content: 'two' }] }, next: [], interrupts: [] }],
  })
  const { events, answer } = collector()
  await streamTask(agent, answer, { id: FIRST, run: runOf(FIRST, 'running') as never }, shown)
  t.match(events, [
    { kind: 'task', id: FIRST },
    { status: { state: 'working', message: { parts: [{ text: 'one' }] } }, event: `${FIRST}.0`, final: false },
    { status: { state: 'working', message: { parts: [{ text: 'two' }] } }, event: `${SECOND}.0`, final: false },
    { kind: 'artifact-update', taskId: FIRST },
    { status: { state: 'completed' }, final: true },
    'end',
  ])
})

t.test('a stream that is cut never says that the task is over', async t => {
  const cut = new Readable({
    read() {
      this.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }))
    },
  })
  const { events, answer } = collector()
  const following = streamTask(
    fakeAgent([cut], {}),
    answer,
    { id: FIRST, run: runOf(FIRST, 'running') as never },
    shown,
  )
  await t.rejects(following, { code: 'unavailable', message: /subscribe to the task again/ })
  const early = fakeAgent([says('one')], {
    [`/runs/${FIRST}`]: [runOf(FIRST, 'running')],
    '/runs?': [[runOf(FIRST, 'running')]],
  })
  await t.rejects(streamTask(early, answer, { id: FIRST, run: runOf(FIRST, 'running') as never }, shown), /cut/)
  t.notOk(events.some(({ final }) => final))
})
