/**
 * The events of a task: the task, a status with each message of a chat model as it comes, the output as an artifact, and
 * the last status. The ids of the events name the run and its event, so a client may go on behind one (Last-Event-ID).
 */

import type { IncomingMessage } from 'node:http'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { parseLarge } from '../../bus/decode.js'
import { fail } from '../../schemas/errors.js'
import { isObject } from '../../schemas/json.js'
import { A2aError } from '../../schemas/protocols/a2a.js'
import { isTerminal } from '../../schemas/runs.js'
import { type Agent, type Run, refusalOf } from './a2a-agent.js'
import { partsOf } from './a2a-content.js'
import { findTask, readTask, type Shown } from './a2a-task.js'
import { type Message, spellUpdate, type Task, type Update } from './a2a-wire.js'
import { detailOf } from './api-request.js'
import type { RpcAnswer } from './rpc-answer.js'

interface Followed {
  id: string
  run: Run
  /** Last event of the run that the client has; absent: it gets all that are stored. */
  lastEventId?: string
}

/** An event of a run, as Last-Event-ID names it; null: the header is absent. Throws an A2aError. */
export function placeOf(header: string): { run_id: string; lastEventId: string } | null {
  if (header === '') return null
  const [, run_id, lastEventId] = /^([0-9a-f-]{36})\.(\d{1,15})$/.exec(header) ?? []
  if (run_id === undefined) throw new A2aError('params', 'Last-Event-ID: expected the id of an event of the task')
  return { run_id, lastEventId: lastEventId! }
}

const CUT = 'The stream of the run was cut: subscribe to the task again'

/** Begins with the task as it is. Goes on with the run that resumes the task meanwhile. */
export async function streamTask(agent: Agent, answer: RpcAnswer, followed: Followed, shown: Shown): Promise<void> {
  const { id } = followed
  let { run } = followed
  let incoming = await openRun(agent, followed)
  const of = { id, contextId: run.thread_id }
  const emit = (update: Update, name?: string) => answer.event(spellUpdate(update, agent.version), name)
  answer.begin('events')
  const state = run.status === 'pending' ? 'submitted' : 'working'
  await emit({ task: { ...of, status: { state, timestamp: run.updated_at } } })
  const work = (message?: Message) => ({
    ...of,
    status: { state: 'working' as const, timestamp: new Date().toISOString(), ...(message && { message }) },
    final: false,
  })
  for (;;) {
    for await (const event of eventsOf(incoming)) {
      const name = `${run.run_id}.${event.id}`
      if (event.event === 'metadata') await emit(work(), name)
      const message = event.event === 'messages' ? messageOf(event.data, { id, run }) : null
      if (message !== null) await emit(work(message), name)
    }
    const found = await findTask(agent, id)
    if (isTerminal(found.latest.status)) return endStream(answer, await readTask(agent, found, shown), emit)
    if (found.latest.run_id === run.run_id) throw fail('unavailable', CUT)
    run = found.latest
    incoming = await openRun(agent, { id, run })
  }
}

/** A task to which nothing more happens. */
export async function streamEnded(agent: Agent, answer: RpcAnswer, task: Task): Promise<void> {
  answer.begin('events')
  const emit = (update: Update) => answer.event(spellUpdate(update, agent.version), undefined)
  await emit({ task })
  await endStream(answer, task, emit)
}

async function endStream(answer: RpcAnswer, task: Task, emit: (update: Update) => Promise<void>): Promise<void> {
  const { id, contextId, artifacts = [], status } = task
  for (const artifact of artifacts) await emit({ id, contextId, artifact })
  await emit({ id, contextId, status, final: true })
  answer.end()
}

/** The stream of the run; rejects with the refusal. */
async function openRun(agent: Agent, { run, lastEventId }: Followed): Promise<IncomingMessage> {
  const path = `/threads/${run.thread_id}/runs/${run.run_id}/stream?stream_mode=messages-tuple`
  const more = lastEventId === undefined ? {} : { lastEventId }
  const incoming = await agent.edge.self.open(agent.exchange, { method: 'GET', path, ...more }, agent.signal)
  incoming.setEncoding('utf8')
  const { statusCode = 500 } = incoming
  if (statusCode < 400) return incoming
  let text = ''
  for await (const part of incoming) text += part
  throw refusalOf(statusCode, detailOf(text), { 404: 'no_task', 409: 'unsupported', 422: 'params' })
}

/** Throws unavailable when the stream is cut. */
async function* eventsOf(incoming: IncomingMessage): AsyncGenerator<EventSourceMessage> {
  let events: EventSourceMessage[] = []
  const parser = createParser({ onEvent: event => events.push(event) })
  try {
    for await (const part of incoming) {
      parser.feed(part)
      const ready = events
      events = []
      yield* ready
    }
  } catch (error) {
    throw (error as Error & { code?: string }).code === 'ECONNRESET' ? fail('unavailable', CUT) : error
  }
}

/** A piece of what a chat model says; null: another message, or no text. */
function messageOf(data: string, { id, run }: Followed): Message | null {
  const [message] = parseLarge<[unknown]>(data)
  if (!isObject(message) || !/^(ai|AIMessageChunk)$/.test(`${message.type}`)) return null
  const parts = partsOf(message.content)
  if (parts.length === 0) return null
  const messageId = typeof message.id === 'string' ? message.id : run.run_id
  return { role: 'agent', messageId, contextId: run.thread_id, taskId: id, parts }
}
