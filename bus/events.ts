/** The terminal event of a run and orders to whoever executes it. Neither is stored: the row is their truth. */
import { headers } from 'nats'
import type { RunId } from '../schemas/ids.js'
import { control, end } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import type { Ending } from './follow.js'

/** A wait result up to this size travels with the terminal event. */
export const MAX_RESULT = 256 * 1024

/** Publishes the terminal event; only resource workers may. */
export function announceEnd(link: Link, run: RunId, { status, last_event_id, result, error }: Ending): void {
  const head = headers()
  head.set('status', status)
  head.set('last_event_id', `${last_event_id}`)
  const travels = result !== null && result.length <= MAX_RESULT
  if (travels) head.set('result', '1')
  if (error !== null) head.set('error', Buffer.from(JSON.stringify(error)).toString('base64'))
  link.nc.publish(end(run), travels ? result : undefined, { headers: head })
}

/** What may be asked of the supervisor of a run. */
export type Order = { do: 'replay'; after: number } | { do: 'cancel' }

export const sendCancel = (link: Link, run: RunId): void =>
  link.nc.publish(control(run), Buffer.from(JSON.stringify({ do: 'cancel' })))

export const readOrder = (data: Uint8Array): Order => JSON.parse(Buffer.from(data).toString()) as Order
