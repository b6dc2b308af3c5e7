/** An assistant as an agent of A2A, and the requests to the API on behalf of its client. */

import { type ErrorCode, fail, type WeftError } from '../../schemas/errors.js'
import { jsonText } from '../../schemas/exact.js'
import type { Json, JsonObject } from '../../schemas/json.js'
import { A2aError, type A2aErrorCode, type A2aVersion, type HistoryScope } from '../../schemas/protocols/a2a.js'
import type { Run as StoredRun } from '../../schemas/runs.js'
import type { ThreadState } from '../../schemas/threads.js'
import type { SelfCall } from '../app/self.js'
import { askApi, type Requester } from './api-request.js'

export interface Assistant {
  assistant_id: string
  name: string
  description: string | null
  metadata: JsonObject
  version: number
}

export interface Agent extends Requester {
  assistant: Assistant
  version: A2aVersion
  /** The version that a header of the request asks for. */
  historyScope: HistoryScope | null
}

export type Run = Pick<StoredRun, 'run_id' | 'thread_id' | 'assistant_id' | 'updated_at' | 'status' | 'metadata'>
const SELECTED = ['run_id', 'thread_id', 'assistant_id', 'updated_at', 'status', 'metadata'] as const

/** The errors that statuses of a route stand for. */
type Errors = { readonly [status: number]: A2aErrorCode }

/** Refusals that are answered as such, whatever the method: clients and proxies know them. */
const PASSED: { readonly [status: number]: ErrorCode } = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  413: 'too_large',
  429: 'too_many',
  503: 'unavailable',
}

export function refusalOf(status: number, detail: string, errors: Errors = {}): WeftError | A2aError {
  const code = errors[status]
  if (code !== undefined) return new A2aError(code, detail)
  const passed = PASSED[status]
  return passed === undefined ? new A2aError('internal', detail) : fail(passed, detail)
}

const get = <T>(requester: Requester, path: string, errors?: Errors): Promise<T> =>
  send(requester, { method: 'GET', path }, errors)

const send = <T>(requester: Requester, call: SelfCall, errors?: Errors): Promise<T> =>
  askApi(requester, call, (status, detail) => refusalOf(status, detail, errors))

const assistantPath = (id: string): string => `/assistants/${encodeURIComponent(id)}`

/** Throws not_found also for what cannot be an id, such as the name of another route. */
export const readAssistant = (requester: Requester, id: string): Promise<Assistant> =>
  askApi(requester, { method: 'GET', path: assistantPath(id) }, (status, detail) =>
    status === 422 || status === 405
      ? fail('not_found', `Assistant ${id.slice(0, 200)} not found`)
      : refusalOf(status, detail),
  )

/** JSON Schema of the input of its graph; null: the graph has none. */
export const readInputSchema = async (requester: Requester, { assistant_id }: Assistant): Promise<Json> =>
  (await get<{ input_schema: Json }>(requester, `${assistantPath(assistant_id)}/schemas`)).input_schema

/** In the background: it goes on when the client leaves. */
export const createRun = (agent: Agent, thread_id: string, body: JsonObject, errors: Errors): Promise<Run> =>
  send(agent, { method: 'POST', path: `/threads/${thread_id}/runs`, body }, errors)

/** The only run that resumes `waiting`, a run that has stopped at an interrupt. Throws unsupported when there is one. */
export async function resumeRun(agent: Agent, { thread_id, run_id }: Run, body: JsonObject): Promise<Run> {
  const call = {
    method: 'POST' as const,
    path: `/threads/${thread_id}/runs`,
    body: { ...body, multitask_strategy: 'reject' },
    idempotencyKey: `a2a-${run_id}`,
  }
  return askApi(agent, call, (status, detail) =>
    // While the other run executes, and when it has ended.
    (status === 409 && !detail.startsWith('command.resume:')) || detail.startsWith('Idempotency-Key:')
      ? new A2aError('unsupported', 'The task waits for no input: another message came first')
      : refusalOf(status, detail, { 400: 'params', 409: 'params', 422: 'params' }),
  )
}

export const readRun = (agent: Agent, run_id: string): Promise<Run & Pick<StoredRun, 'kwargs'>> =>
  get(agent, `/runs/${run_id}`, { 404: 'no_task' })

/** Newest first. */
export function listRuns(
  agent: Agent,
  thread_id: string,
  { metadata, ...page }: { limit: number; offset?: number; metadata?: JsonObject },
  errors?: Errors,
): Promise<Run[]> {
  const query = new URLSearchParams({ select: SELECTED.join() })
  for (const [name, value] of Object.entries(page)) query.set(name, `${value}`)
  if (metadata !== undefined) query.set('metadata', jsonText(metadata))
  return get(agent, `/threads/${thread_id}/runs?${query}`, errors)
}

/** Resolves when the run has ended: with its output, or with `__error__`. */
export const joinRun = ({ thread_id, run_id }: Run, agent: Agent): Promise<Json> =>
  get(agent, `/threads/${thread_id}/runs/${run_id}/join`, { 404: 'no_task' })

/** Resolves when the run has ended. */
export const cancelRun = ({ thread_id, run_id }: Run, agent: Agent): Promise<unknown> =>
  send(
    agent,
    { method: 'POST', path: `/threads/${thread_id}/runs/${run_id}/cancel?wait=true` },
    { 404: 'not_cancelable', 409: 'not_cancelable' },
  )

/** Metadata of a thread: the run at whose interrupt the client canceled the task. */
const CANCELED = 'a2a_canceled'

/** Cancels a task that waits for input. There is no run to cancel, so the thread remembers it. */
export const cancelWaiting = ({ thread_id, run_id }: Run, agent: Agent): Promise<unknown> =>
  send(
    agent,
    { method: 'PATCH', path: `/threads/${thread_id}`, body: { metadata: { [CANCELED]: run_id } } },
    { 404: 'no_task', 409: 'not_cancelable' },
  )

export async function isCanceled({ thread_id, run_id }: Run, agent: Agent): Promise<boolean> {
  const body = { ids: [thread_id], select: ['metadata'] }
  const call = { method: 'POST' as const, path: '/threads/search', body }
  const [thread] = await send<{ metadata: JsonObject }[]>(agent, call)
  return thread?.metadata[CANCELED] === run_id
}

export const readState = (agent: Agent, thread_id: string): Promise<ThreadState> =>
  get(agent, `/threads/${thread_id}/state`, { 404: 'no_task' })

/** The state that the run has left; null when it left none. */
export async function readStateOf(agent: Agent, { thread_id, run_id }: Run): Promise<ThreadState | null> {
  const body = { limit: 1, metadata: { run_id } }
  const call = { method: 'POST' as const, path: `/threads/${thread_id}/history`, body }
  const [state] = await send<ThreadState[]>(agent, call, { 404: 'no_task' })
  return state ?? null
}

/** Threads whose last run was one of the assistant, those that changed last first. */
export async function listThreads(agent: Agent, page: { limit: number; offset: number }): Promise<string[]> {
  const body = {
    ...page,
    metadata: { assistant_id: agent.assistant.assistant_id },
    sort_by: 'updated_at',
    sort_order: 'desc',
    select: ['thread_id'],
  }
  const found = await send<{ thread_id: string }[]>(agent, { method: 'POST', path: '/threads/search', body })
  return found.map(({ thread_id }) => thread_id)
}
