/**
 * The terminal event of a run, news of a thread, orders to whoever executes a run, alarms that were set. None is
 * stored: the rows are the truth.
 */
import { headers } from 'nats'
import { type RunId, token } from '../schemas/ids.js'
import { control, end, event, threadNews } from '../schemas/subjects.js'
import type { ThreadNews } from '../schemas/thread-stream.js'
import type { Link } from './connect.js'
import type { Ending } from './follow.js'

/** A wait result up to this size travels with the terminal event. */
export const MAX_RESULT = 256 * 1024

/** Publishes the terminal event; only resource workers may. */
export function announceEnd(link: Link, run: RunId, ending: Ending): void {
  const { status, last_event_id, resumable_until_id, result, error } = ending
  const head = headers()
  head.set('status', status)
  head.set('last_event_id', `${last_event_id}`)
  if (resumable_until_id != null) head.set('resumable_until_id', `${resumable_until_id}`)
  const travels = result !== null && result.length <= MAX_RESULT
  if (travels) head.set('result', '1')
  if (error !== null) head.set('error', Buffer.from(JSON.stringify(error)).toString('base64'))
  link.nc.publish(end(run), travels ? result : undefined, { headers: head })
}

/** What may be asked of the supervisor of a run. */
export type RunSignal = { do: 'replay'; after: number } | { do: 'cancel' }

export const sendCancel = (link: Link, run: RunId): void =>
  link.nc.publish(control(run), Buffer.from(JSON.stringify({ do: 'cancel' })))

export const readSignal = (data: Uint8Array): RunSignal => JSON.parse(Buffer.from(data).toString()) as RunSignal

/** Tells those who follow a thread over its runs. */
export const announceNews = (link: Link, thread_id: string, news: ThreadNews): void =>
  link.nc.publish(threadNews(token('thread', thread_id)), Buffer.from(JSON.stringify(news)))

/** Hears what is announced from now on. */
export function followThread(link: Link, thread_id: string, onNews: (news: ThreadNews) => void): () => void {
  const subscription = link.nc.subscribe(threadNews(token('thread', thread_id)), {
    callback: (error, message) => void (error ?? onNews(JSON.parse(Buffer.from(message.data).toString()))),
  })
  return () => subscription.unsubscribe()
}

/** Tells the other resource workers that a row is due at `at` (ms). */
export const tellAlarm = (link: Link, at: number): void => link.nc.publish(event('alarm', 'set'), `${at}`)

/** Hears of alarms, also of our own. The answer ends it. */
export function onAlarm(link: Link, hear: (at: number) => void): () => void {
  const subscription = link.nc.subscribe(event('alarm', 'set'), {
    callback: (error, message) => {
      const at = error ? Number.NaN : Number(message.string())
      if (Number.isFinite(at)) hear(at)
    },
  })
  return () => subscription.unsubscribe()
}
