/** The events of a run as they come, from the first one that the server still has. */
import { useEffect, useState } from 'react'
import { client } from '../../api/client'

export interface RunEvent {
  id: string
  event: string
  data: unknown
}

export interface Events {
  list: readonly RunEvent[]
  /** How often the run was begun, as its `metadata` event says. */
  attempt: number | null
  ended: boolean
  /** The server has removed the first ones, or all. */
  isExpired: boolean
  error: unknown
}

const NONE: Events = { list: [], attempt: null, ended: false, isExpired: false, error: null }
/** The newest ones are shown. */
const SHOWN = 2_000
/** Answers to a join whose events are not kept. */
const CONFLICT = 409
const NOT_FOUND = 404

export function useEvents(threadId: string, runId: string): Events {
  const [events, setEvents] = useState(NONE)
  useEffect(() => {
    const controller = new AbortController()
    let waiting: RunEvent[] = []
    let frame = 0
    const flush = () => {
      frame = 0
      const batch = waiting
      waiting = []
      setEvents(last => ({
        ...last,
        list: [...last.list, ...batch].slice(-SHOWN),
        attempt: attemptIn(batch) ?? last.attempt,
      }))
    }
    setEvents(NONE)
    const read = async () => {
      const stream = client.runs.joinStream(threadId, runId, { lastEventId: '-1', signal: controller.signal })
      for await (const { id = '', event, data } of stream) {
        waiting.push({ id, event, data })
        frame ||= requestAnimationFrame(flush)
      }
    }
    read()
      .catch((error: unknown) => {
        const { status } = error as { status?: number }
        const isExpired = status === CONFLICT || status === NOT_FOUND
        if (!controller.signal.aborted) setEvents(last => ({ ...last, isExpired, error }))
      })
      .finally(() => !controller.signal.aborted && setEvents(last => ({ ...last, ended: true })))
    return () => {
      controller.abort()
      cancelAnimationFrame(frame)
    }
  }, [threadId, runId])
  return events
}

function attemptIn(events: readonly RunEvent[]): number | null {
  const found = events.findLast(({ event }) => event === 'metadata')
  const { attempt } = (found?.data ?? {}) as { attempt?: number }
  return attempt ?? null
}

export interface Rendered {
  id: string
  name: string
  /** The tokens of one message put together. */
  text?: string
  data?: unknown
}

/** Tokens that follow each other become one text; every other event stays as it is. */
export function render(events: readonly RunEvent[]): Rendered[] {
  const rows: Rendered[] = []
  for (const { id, event, data } of events) {
    const token = tokenOf(event, data)
    const last = rows.at(-1)
    if (token === null) rows.push({ id, name: event, data })
    else if (last?.text !== undefined && last.name === event) last.text += token
    else rows.push({ id, name: event, text: token })
  }
  return rows
}

/** The text of a token of `messages-tuple`. */
function tokenOf(event: string, data: unknown): string | null {
  if (event.split('|', 1)[0] !== 'messages' || !Array.isArray(data)) return null
  const { content } = (data[0] ?? {}) as { content?: unknown }
  return typeof content === 'string' && content !== '' ? content : null
}
