/**
 * Messages that no stream stores, because the rows of the store hold the truth: the terminal event of a run, what happens
 * on a thread, signals to the supervisor of a run, alarms. A message that cannot be read is dropped with a log line.
 */
import { headers } from 'nats'
import { type Pool, type RunId, token } from '../schemas/ids.js'
import { isObject } from '../schemas/json.js'
import { authEnded, control, end, event, threadNews } from '../schemas/subjects.js'
import type { ThreadNews } from '../schemas/thread-stream.js'
import type { Link } from './connect.js'
import type { Ending } from './follow.js'
import type { Mux } from './mux.js'

/** A wait result up to this size travels with the terminal event. */
const MAX_RESULT = 256 * 1024

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

/** A request to the supervisor of a run. */
type RunSignal = { do: 'replay'; after: number } | { do: 'cancel' } | { do: 'locate'; checkpoint: string }

export const sendCancel = (link: Link, pool: Pool, run: RunId): void =>
  link.nc.publish(control(pool, run), Buffer.from(JSON.stringify({ do: 'cancel' })))

/** Like `sendCancel`; resolves to false when no supervisor has the run or is claiming it. */
export const cancelReaches = (mux: Mux, pool: Pool, run: RunId): Promise<boolean> =>
  mux.ask(control(pool, run), Buffer.from(JSON.stringify({ do: 'cancel' })), { timeout: 1_000 }).then(
    ({ headers }) => headers?.code !== 503,
    // A supervisor does not answer a signal.
    () => true,
  )

/** Null: this is no signal. */
export function readSignal(data: Uint8Array): RunSignal | null {
  const signal = readJson(data)
  if (!isObject(signal)) return null
  if (signal.do === 'cancel') return { do: 'cancel' }
  const { checkpoint } = signal
  if (signal.do === 'locate') return typeof checkpoint === 'string' ? { do: 'locate', checkpoint } : null
  return signal.do === 'replay' && Number.isInteger(signal.after) ? { do: 'replay', after: Number(signal.after) } : null
}

/** Publishes what happened to the runs of a thread. */
export const announceNews = (link: Link, thread_id: string, news: ThreadNews): void =>
  link.nc.publish(threadNews(token('thread', thread_id)), Buffer.from(JSON.stringify(news)))

/** Calls `onNews` for what is published from now on, until the returned function is called. */
export function followThread(link: Link, thread_id: string, onNews: (news: ThreadNews) => void): () => void {
  const subscription = link.subscribe(threadNews(token('thread', thread_id)), ({ data }) => {
    const news = readJson(data)
    if (isObject(news) && typeof news.app === 'string') onNews(news as unknown as ThreadNews)
  })
  return () => subscription.unsubscribe()
}

/** Reports that an OAuth flow has ended. */
export const announceAuthEnd = (link: Link, auth_id: string): void => link.nc.publish(authEnded(token('auth', auth_id)))

/** Calls `onEnd` when the flow ends from now on, until the returned function is called. */
export function onAuthEnd(link: Link, auth_id: string, onEnd: () => void): () => void {
  const subscription = link.subscribe(authEnded(token('auth', auth_id)), onEnd)
  return () => subscription.unsubscribe()
}

/** Reports to all resource workers that a row is due at `at` (ms). */
export const announceAlarm = (link: Link, at: number): void => link.nc.publish(event('alarm', 'set'), `${at}`)

/** Calls `listen` for alarms, also for those of this worker, until the returned function is called. */
export function onAlarm(link: Link, listen: (at: number) => void): () => void {
  const subscription = link.subscribe(event('alarm', 'set'), message => {
    const at = Number(message.string())
    if (Number.isFinite(at)) listen(at)
  })
  return () => subscription.unsubscribe()
}

/** Undefined for what is no JSON. */
function readJson(data: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(data).toString())
  } catch {
    return undefined
  }
}
