/**
 * A2A over JSON-RPC 2.0 (docs/spec/protocols.md#a2a): each assistant is an agent, a thread is a context, a run a task.
 * All that a method reads or changes are requests of the client to the API: there is no state of A2A.
 */
import { checkAs, decodeJson } from '../../bus/decode.js'
import { fail, WeftError } from '../../schemas/errors.js'
import { isObject } from '../../schemas/json.js'
import {
  A2A_ERRORS,
  A2A_METHODS,
  A2A_VERSIONS,
  A2aError,
  type A2aRequest,
  type A2aWork,
  type HistoryScope,
  validateA2aRequest,
  validateListParams,
  validateSendParams,
  validateTaskParams,
} from '../../schemas/protocols/a2a.js'
import { A2UI_EXTENSION } from '../../schemas/protocols/a2ui.js'
import { isTerminal } from '../../schemas/runs.js'
import type { Edge } from '../context.js'
import { MANY_KEY_STREAMS, REVOKED } from '../guard.js'
import { EDGE_VALUES } from '../http/body.js'
import type { Exchange } from '../http/exchange.js'
import { MANY_STREAMS } from '../upgrade.js'
import { usesA2ui } from './a2a-a2ui.js'
import { type Agent, cancelRun, cancelWaiting, readAssistant } from './a2a-agent.js'
import { readCard } from './a2a-card.js'
import { listTasks } from './a2a-list.js'
import { sendMessage, shownBy } from './a2a-send.js'
import { placeOf, streamEnded, streamTask } from './a2a-stream.js'
import { findTask, readTask, waitFor } from './a2a-task.js'
import { spellTask } from './a2a-wire.js'
import type { Requester } from './api-request.js'
import { errorText, RpcAnswer } from './rpc-answer.js'

export async function a2a(edge: Edge, exchange: Exchange, body: Uint8Array): Promise<void> {
  let request: unknown
  let checked: A2aRequest
  try {
    request = decodeJson(body, { quote: false, most: EDGE_VALUES })
    if (Array.isArray(request)) throw fail('invalid', 'Expected one request of JSON-RPC 2.0: there are no batches')
    checked = checkAs(request, validateA2aRequest, 'the request')
  } catch (error) {
    const { code, message } = error as WeftError
    const isParsed = request !== undefined && code === 'invalid'
    const known = A2A_ERRORS[isParsed ? 'request' : 'parse']
    return exchange.reply(400, errorText(isParsed ? idOf(request) : null, { code: known, message }))
  }
  const { id, method, params } = checked
  const answer = new RpcAnswer(edge, exchange, id)
  const requester = { edge, exchange, signal: answer.signal }
  try {
    const assistant = await readAssistant(requester, exchange.params.assistant_id!)
    const known = A2A_METHODS.get(method)
    if (known === undefined) throw new A2aError('method', `Unknown method: ${method.slice(0, 200)}`)
    checkVersion(exchange.received.a2aVersion)
    const { historyScope } = exchange.received
    const agent = { ...requester, assistant, version: known.version, historyScope: scopeOf(historyScope) }
    if (usesA2ui(agent)) answer.headers = { [EXTENSIONS[known.version]]: A2UI_EXTENSION }
    if (WAITS.has(known.work)) takePlace(requester)
    await WORK[known.work](agent, answer, params ?? {})
  } catch (error) {
    if (!answer.signal.aborted) await report(answer, error)
  }
}

/** The header that names the extensions of an answer, as the client named them. */
const EXTENSIONS = { '0.3': 'X-A2A-Extensions', '1.0': 'A2A-Extensions' } as const

/** A method that follows a run counts as an open stream. The rest does not: who has as many as allowed must be able to cancel. */
const WAITS: ReadonlySet<A2aWork> = new Set<A2aWork>(['send', 'stream', 'subscribe'])

/** Throws too_many. */
function takePlace({ edge, exchange }: Requester): void {
  const { key } = exchange
  if (key !== null && !exchange.hold(end => key.openStream(end), REVOKED)) throw fail('too_many', MANY_KEY_STREAMS)
  if (!exchange.hold(() => edge.clients.openStream(exchange), REVOKED)) throw fail('too_many', MANY_STREAMS)
}

/** Errors of methods are answers; refusals of the API keep their status, unless the answer has begun. */
async function report(answer: RpcAnswer, error: unknown): Promise<void> {
  const isParams = error instanceof WeftError && error.code === 'invalid'
  const code = error instanceof A2aError ? error.code : isParams ? 'params' : answer.hasBegun ? 'internal' : null
  if (code === null || !(error instanceof A2aError || error instanceof WeftError)) throw error
  await answer.error({ code: A2A_ERRORS[code], message: error.message })
}

type Work = (agent: Agent, answer: RpcAnswer, params: object) => Promise<void>

const WORK: { readonly [work in A2aWork]: Work } = {
  async send(agent, answer, params) {
    const asked = checkAs(params, validateSendParams, 'params')
    const { configuration } = asked
    const shown = shownBy(agent, configuration)
    const sent = await sendMessage(agent, asked)
    const waits = configuration?.blocking !== false && configuration?.returnImmediately !== true
    if (waits) answer.begin('message')
    const found = waits ? await waitFor(agent, sent.id, sent.run) : await findTask(agent, sent.id)
    const task = spellTask(await readTask(agent, found, shown), agent.version)
    await answer.result(agent.version === '1.0' ? { task } : task)
  },
  async stream(agent, answer, params) {
    const asked = checkAs(params, validateSendParams, 'params')
    const shown = streamShown(agent, asked.configuration?.historyScope)
    await streamTask(agent, answer, await sendMessage(agent, asked), shown)
  },
  async get(agent, answer, params) {
    const asked = checkAs(params, validateTaskParams, 'params')
    const task = await readTask(agent, await findTask(agent, asked.id), shownBy(agent, asked))
    await answer.result(spellTask(task, agent.version))
  },
  async list(agent, answer, params) {
    const page = await listTasks(agent, checkAs(params, validateListParams, 'params'))
    await answer.result({ ...page, tasks: page.tasks.map(task => spellTask(task, agent.version)) })
  },
  async cancel(agent, answer, params) {
    const asked = checkAs(params, validateTaskParams, 'params')
    const shown = shownBy(agent, asked)
    const found = await findTask(agent, asked.id)
    if (!isTerminal(found.latest.status)) await cancelRun(found.latest, agent)
    else {
      const { status } = await readTask(agent, found, shown)
      if (status.state !== 'input-required') throw notCancelable(status.state)
      await cancelWaiting(found.latest, agent)
    }
    const task = await readTask(agent, await findTask(agent, asked.id), shown)
    if (task.status.state !== 'canceled') throw notCancelable(task.status.state)
    await answer.result(spellTask(task, agent.version))
  },
  async subscribe(agent, answer, params) {
    const asked = checkAs(params, validateTaskParams, 'params')
    const shown = streamShown(agent, asked.historyScope)
    const found = await findTask(agent, asked.id)
    const after = placeOf(agent.exchange.received.lastEventId)
    if (!isTerminal(found.latest.status) || after !== null) {
      const { id, latest: run } = found
      // Behind an event of an earlier run of the task comes all of the latest one.
      const more = after?.run_id === run.run_id ? { lastEventId: after.lastEventId } : {}
      return streamTask(agent, answer, { id, run, ...more }, shown)
    }
    const task = await readTask(agent, found, shown)
    // Each version has its own form.
    if (agent.version === '1.0' && task.status.state !== 'input-required')
      throw new A2aError('unsupported', `No event follows: the task is ${task.status.state}`)
    await streamEnded(agent, answer, task)
  },
  async card(agent, answer) {
    await answer.result(await readCard(agent, agent.assistant, agent.exchange.params.assistant_id!))
  },
  async push() {
    throw new A2aError('no_push', 'This agent sends no push notifications')
  },
}

const notCancelable = (state: string): A2aError =>
  new A2aError('not_cancelable', `The task cannot be canceled: it is ${state}`)

function streamShown(agent: Agent, asked: HistoryScope | null | undefined) {
  const shown = shownBy(agent, { historyScope: asked ?? null })
  if (shown.scope === 'task') throw new A2aError('params', 'historyScope: a stream has no history of its task')
  return { ...shown, history: 0 }
}

function scopeOf(header: string): HistoryScope | null {
  if (header === '') return null
  if (header === 'context' || header === 'task') return header
  throw fail('invalid', 'LangGraph-A2A-History-Scope: expected context or task')
}

/** The method decides: clients of both versions send this header, and an absent one says nothing. */
function checkVersion(header: string): void {
  const isKnown = A2A_VERSIONS.some(version => header === version || header.startsWith(`${version}.`))
  if (header !== '' && !isKnown) throw new A2aError('version', `A2A-Version: expected ${A2A_VERSIONS.join(' or ')}`)
}

const idOf = (request: unknown): string | number | null => {
  const id = isObject(request) ? request.id : null
  return (typeof id === 'string' && id.length <= 1000) || Number.isSafeInteger(id) ? (id as string | number) : null
}
