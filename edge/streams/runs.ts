/**
 * Creates a run, or joins one. The edge makes the run id and follows the run before it exists, so no event can be
 * missed; every error of a create is answered as plain HTTP before a stream starts.
 */
import { v7 as uuid } from 'uuid'
import type { Answer } from '../../bus/answer.js'
import { fail } from '../../schemas/errors.js'
import { cancelsByLeaving } from '../../schemas/query.js'
import { isTerminal, type RunMode } from '../../schemas/runs.js'
import { createCall, forward } from '../calls.js'
import { type Edge, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'
import { readBeginning } from './cursor.js'
import { openFilter, readModes, readNamespaces } from './filter.js'
import { openJoined } from './run-join.js'
import { RunStream } from './run-stream.js'
import { RunWait } from './run-wait.js'

export async function createRun(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const run_id = uuid()
  const mode = route.mode!
  const namespaces = exchange.query === '' ? null : readNamespaces(new URLSearchParams(exchange.query))
  const follower =
    mode === 'stream'
      ? new RunStream(edge, exchange, run_id, { joined: false, filter: openFilter([], [], namespaces) })
      : mode === 'wait'
        ? new RunWait(edge, exchange, run_id, { joined: false })
        : null
  const head = { ...exchange.callHead(), run: { run_id, mode } }
  let answer: Answer
  try {
    answer = await createCall(edge, route.subject, head, body)
  } catch (error) {
    follower?.drop()
    throw error
  }
  exchange.releaseBody()
  const { run, status } = answer.head
  if (status >= 400 || run === undefined) {
    follower?.drop()
    return forward(exchange, answer)
  }
  if (follower instanceof RunStream) follower.openCreated(run)
  else if (follower instanceof RunWait) follower.open(run, { cancels: run.on_disconnect === 'cancel' })
  else forward(exchange, answer, { 'Content-Location': runPath(run) })
}

export async function joinStream(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const beginning = readBeginning(exchange.received.lastEventId, query)
  const found = await join(edge, exchange, route, { mode: 'stream', resumes: typeof beginning.cursor === 'number' })
  if (found === null || exchange.over) return
  const { view } = found
  const stream = new RunStream(edge, exchange, view.run_id, {
    joined: true,
    cancels: cancelsByLeaving(query),
    filter: openFilter(readModes(query), view.stream_mode, readNamespaces(query)),
  })
  try {
    await openJoined(edge, stream, view, beginning)
  } catch (error) {
    stream.drop()
    throw error
  }
}

export async function joinWait(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const found = await join(edge, exchange, route, { mode: 'wait' })
  if (found === null || exchange.over) return
  const { view, answer } = found
  if (isTerminal(view.status) && answer.body.length > 0) {
    const path = runPath(view)
    return exchange.reply(200, answer.body, { Location: `${path}/join`, 'Content-Location': path })
  }
  const wait = new RunWait(edge, exchange, view.run_id, { joined: true })
  wait.open(view, { cancels: cancelsByLeaving(query) })
  if (!isTerminal(view.status)) wait.recheck()
}

interface JoinOptions {
  mode: RunMode
  resumes?: boolean
}

/** Authorises, finds, and clears a cancel that is due since the creator left. Null when it was refused and answered. */
async function join(edge: Edge, exchange: Exchange, route: Route, { mode, resumes = false }: JoinOptions) {
  const head = exchange.callHead()
  const asked = { ...head, run: { run_id: head.params!.run_id!, mode, resumes } }
  const answer = await edge.caller.call(route.subject, asked, undefined, { repeat: true })
  const { run, status } = answer.head
  if (status >= 400) {
    forward(exchange, answer)
    return null
  }
  if (run === undefined) throw fail('internal')
  return { view: run, answer }
}
