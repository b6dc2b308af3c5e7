/**
 * Making a run and joining one. The edge makes the run id and follows the run before it exists, so no event can be
 * missed; every error of a create is answered as plain HTTP before a stream starts.
 */
import { v7 as uuid } from 'uuid'
import type { Answer } from '../../bus/call.js'
import type { CallHead } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { isTrue } from '../../schemas/query.js'
import { isTerminal, type RunMode } from '../../schemas/runs.js'
import { forward } from '../calls.js'
import { type Edge, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'
import { readCursor } from './cursor.js'
import { openFilter, readModes } from './filter.js'
import { JoinedStream } from './run-join.js'
import { RunStream } from './run-stream.js'
import { RunWait } from './run-wait.js'

/** How long a create that nobody answers is repeated. */
const CREATE_MS = 20_000
const TRY_MS = 5_000
const PAUSE_MS = 250
/** A large body needs longer to travel. */
const BYTES_PER_MS = 2_000

export async function createRun(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const run_id = uuid()
  const mode = route.mode!
  const follower =
    mode === 'stream'
      ? new RunStream(edge, exchange, run_id)
      : mode === 'wait'
        ? new RunWait(edge, exchange, run_id)
        : null
  let answer: Answer
  try {
    answer = await insist(edge, route.subject, { ...exchange.callHead(), run: { run_id, mode } }, body)
  } catch (error) {
    follower?.drop()
    throw error
  }
  const { run, status } = answer.head
  if (status >= 400 || run === undefined) {
    follower?.drop()
    return forward(exchange, answer)
  }
  if (follower instanceof RunStream) follower.openCreated(run)
  else if (follower instanceof RunWait) follower.open(run, run.on_disconnect === 'cancel')
  else forward(exchange, answer, { 'Content-Location': runPath(run) })
}

/** Repeats with the same run id: whoever stored the run answers the stored row, so a repeat makes no second one. */
export async function insist(edge: Edge, subject: string, head: CallHead, body: Uint8Array): Promise<Answer> {
  const until = Date.now() + CREATE_MS
  const patience = TRY_MS + body.length / BYTES_PER_MS
  for (;;) {
    try {
      return await edge.caller.call(subject, head, body, { timeout: Math.min(patience, until - Date.now()) })
    } catch (error) {
      if (edge.stopping || Date.now() + PAUSE_MS * 2 >= until) throw error
      await new Promise(done => setTimeout(done, PAUSE_MS))
    }
  }
}

export async function joinStream(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const cursor = readCursor(exchange.received.lastEventId, query)
  const found = await join(edge, exchange, route, 'stream', typeof cursor === 'number')
  if (found === null || exchange.over) return
  const { head } = found
  const stream = new JoinedStream(edge, exchange, head.run_id)
  const filter = openFilter(readModes(query), head.stream_mode)
  try {
    await stream.open(head, cursor, filter, isTrue(query.get('cancel_on_disconnect')))
  } catch (error) {
    stream.drop()
    throw error
  }
}

export async function joinWait(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const found = await join(edge, exchange, route, 'wait')
  if (found === null || exchange.over) return
  const { head, answer } = found
  if (isTerminal(head.status) && answer.body.length > 0) {
    const path = runPath(head)
    return exchange.reply(200, answer.body, { Location: `${path}/join`, 'Content-Location': path })
  }
  const wait = new RunWait(edge, exchange, head.run_id, true)
  wait.open(head, isTrue(query.get('cancel_on_disconnect')))
  if (!isTerminal(head.status)) wait.recheck()
}

/** Authorises, finds, and clears a cancel that was pending since the creator left. Null when it was refused: answered. */
async function join(edge: Edge, exchange: Exchange, route: Route, mode: RunMode, resumes = false) {
  const head = exchange.callHead()
  const answer = await edge.caller.call(route.subject, {
    ...head,
    run: { run_id: head.params!.run_id!, mode, resumes },
  })
  const { run, status } = answer.head
  if (status >= 400) {
    forward(exchange, answer)
    return null
  }
  if (run === undefined) throw fail('internal')
  return { head: run, answer }
}
