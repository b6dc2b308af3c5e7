/** Whether this edge and the cluster can serve: what `/ready` answers, and what decides whether a request is worth another try. */
import type { Answer } from '../bus/answer.js'
import type { CallHead } from '../schemas/calls.js'
import { ERRORS } from '../schemas/errors.js'
import { rpc } from '../schemas/subjects.js'
import type { Edge } from './context.js'

/** A probe learns within 2 s that the store does not answer. */
const READY_MS = 1_500

export interface Fault {
  status: number
  detail: string
}

const unavailable = (detail: string): Fault => ({ status: ERRORS.unavailable.status, detail })

/** Null: this edge can serve, whatever the others do. When all edges judge the cluster, a balancer has none left. */
export function notReadyItself({ leaving, link }: Pick<Edge, 'leaving' | 'link'>): Fault | null {
  if (leaving.aborted) return unavailable('The edge is stopping')
  return link.connected() ? null : unavailable('The broker cannot be reached')
}

/** Null: broker, store and a worker answer for the application of the call. */
export async function notReady(edge: Edge, head: CallHead): Promise<Fault | null> {
  if (edge.stopping.aborted) return unavailable('The edge is stopping')
  if (!edge.link.connected()) return unavailable('The broker cannot be reached')
  const answer = await ask(edge, head, rpc('system', 'ready'), READY_MS)
  return 'detail' in answer ? answer : null
}

/** The answer of a worker, or the reason why none came. */
export async function ask(edge: Edge, head: CallHead, subject: string, timeout: number): Promise<Answer | Fault> {
  try {
    const answer = await edge.caller.call(subject, head, undefined, { timeout, patience: 0 })
    const { status, detail = 'Not ready' } = answer.head
    return status < 400 ? answer : { status, detail }
  } catch (error) {
    return unavailable((error as Error).message)
  }
}
