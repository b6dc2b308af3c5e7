/** A message of a client: the input of a new run, or the answer that a waiting task resumes with. */
import { v7 as uuid } from 'uuid'
import { isUuid } from '../../schemas/ids.js'
import { isObject, type Json, type JsonObject, merge } from '../../schemas/json.js'
import { A2aError, type A2aMessage, type HistoryScope, type SendParams } from '../../schemas/protocols/a2a.js'
import { type A2uiType, a2uiTypeOf } from '../../schemas/protocols/a2ui.js'
import { activatedBy, openA2ui, SHOWS } from './a2a-a2ui.js'
import { type Agent, createRun, type Run, readInputSchema, resumeRun } from './a2a-agent.js'
import { contentOf, readPart } from './a2a-content.js'
import { findTask, interruptsOf, RESUMES, readTask, type Shown } from './a2a-task.js'
import type { Part } from './a2a-wire.js'

export interface Sent {
  id: string
  run: Run
}

/** The most messages of a task that an answer shows. */
export const MOST_MESSAGES = 10

export function shownBy(
  agent: Agent,
  asked: { historyLength?: number | null; historyScope?: HistoryScope | null } | null | undefined,
): Shown {
  return {
    history: asked?.historyLength ?? MOST_MESSAGES,
    scope: asked?.historyScope ?? agent.historyScope ?? 'context',
    artifacts: true,
  }
}

const params = (message: string): A2aError => new A2aError('params', message)

export async function sendMessage(
  agent: Agent,
  { message, configuration, context, command }: SendParams,
): Promise<Sent> {
  if (configuration?.pushNotificationConfig || configuration?.taskPushNotificationConfig)
    throw new A2aError('no_push', 'This agent sends no push notifications')
  const contextId = message.contextId || null
  if (contextId !== null && !isUuid(contextId)) throw params('message.contextId: expected a UUID')
  const parts = message.parts.map((part, i) => {
    const read = readPart(part)
    if (read === null) throw params(`message.parts[${i}]: expected text, data, or a file with its bytes or its address`)
    return read
  })
  const common = {
    assistant_id: agent.assistant.assistant_id,
    stream_mode: ['messages-tuple'],
    // A client that lost its connection gets the events again.
    stream_resumable: true,
    ...(context ? { context } : {}),
  }
  if (message.taskId) {
    const { id, latest, interrupts } = await waitingTask(agent, message.taskId, contextId)
    const body = {
      ...common,
      command: command ?? { resume: answerOf(parts, interrupts) },
      metadata: { [RESUMES]: id, ...markOf(openA2ui(agent, message, parts, latest)) },
    }
    return { id, run: await resumeRun(agent, latest, body) }
  }
  const metadata = markOf(openA2ui(agent, message, parts, null))
  const input = command ? { command } : { input: await inputOf(agent, message, parts) }
  const body = { ...common, ...input, metadata, if_not_exists: 'create' }
  const errors = { 400: 'params', 404: 'params', 409: 'params', 422: 'params' } as const
  const run = await createRun(agent, contextId ?? uuid(), body, errors)
  return { id: run.run_id, run }
}

const markOf = (type: A2uiType | null): JsonObject => (type === null ? {} : { [SHOWS]: type })

async function waitingTask(agent: Agent, taskId: string, contextId: string | null) {
  const found = await findTask(agent, taskId)
  const { thread_id } = found.latest
  if (contextId !== null && contextId.toLowerCase() !== thread_id)
    throw params('message.contextId: expected the context of the task')
  const { status } = await readTask(agent, found, { history: 0, scope: 'context', artifacts: false })
  if (status.state !== 'input-required')
    throw new A2aError('unsupported', `The task waits for no input: it is ${status.state}`)
  return { id: found.id, latest: found.latest, interrupts: interruptsOf(status) }
}

/** Throws when the graph asks several questions and this does not say which one it answers: the run would fail. */
function answerOf(parts: readonly Part[], interrupts: readonly string[]): Json {
  const answer = givenBy(parts)
  const ids = isObject(answer) ? Object.keys(answer) : []
  if (interrupts.length > 1 && (ids.length === 0 || !ids.every(id => interrupts.includes(id))))
    throw params(
      `message.parts: the task waits for ${interrupts.length} answers: expected data {"resume": {"<interrupt_id>": answer}}, with ids of ${interrupts.join(', ')}`,
    )
  return answer
}

/** `{"resume": …}` of a data part is the value itself, as parallel interrupts need it. */
function givenBy(parts: readonly Part[]): Json {
  const data = parts.flatMap(part => ('data' in part ? [part.data] : []))
  if (data.length === 0) return contentOf(parts)
  if (data.length < parts.length) throw params('message.parts: expected either data or texts and files as an answer')
  const [only] = data
  if (data.length === 1) return isObject(only) && Object.hasOwn(only, 'resume') ? only.resume : only
  if (!data.every(isObject)) throw params('message.parts: expected one data part, or objects, which are merged')
  return merge(...data)
}

/** Data is merged into the input; texts, files and events of A2UI become one message of the user. */
async function inputOf(agent: Agent, message: A2aMessage, parts: readonly Part[]): Promise<JsonObject> {
  const isData = (part: Part): part is Part & { data: Json } => 'data' in part && a2uiTypeOf(part) === null
  const data = parts.flatMap((part, i) => {
    if (!isData(part)) return []
    if (!isObject(part.data)) throw params(`message.parts[${i}].data: expected an object, which becomes the input`)
    return [part.data]
  })
  const spoken = parts.filter(part => !isData(part))
  if (spoken.length === 0) return merge(...data)
  if (!takesMessages(await readInputSchema(agent, agent.assistant)))
    throw new A2aError('content', 'This agent takes data parts only: the input of its graph has no messages')
  const said = { type: 'human', content: contentOf(spoken), id: message.messageId, ...envelopeOf(agent, message) }
  return merge(...data, { messages: [said] })
}

/** Metadata and extensions of a message, where the graph finds them: the catalogs that its client can show are there. */
function envelopeOf(agent: Agent, { metadata }: A2aMessage): JsonObject {
  const extensions = activatedBy(agent)
  const a2a = {
    ...(metadata && Object.keys(metadata).length > 0 ? { metadata } : {}),
    ...(extensions.length > 0 ? { extensions } : {}),
  }
  return Object.keys(a2a).length > 0 ? { additional_kwargs: { a2a } } : {}
}

/** A graph without a schema may take them. */
export const takesMessages = (schema: Json): boolean =>
  !isObject(schema) || !isObject(schema.properties) || Object.hasOwn(schema.properties, 'messages')
