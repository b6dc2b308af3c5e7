/** Checks of streams: every event once, in order, with the expected content. Each check throws a Wrong. */
import { attemptOf, firstIdOf } from '../../schemas/subjects.js'
import { type Connection, requestText } from './http.js'
import type { Server } from './server.js'
import { type OnEvent, sseReader } from './sse.js'
import { check, shown, Wrong } from './wrong.js'

export interface Reader {
  event: OnEvent
  /** Called at the end of the stream; throws when events are missing. */
  end(): void
}

/** Sends the request and reads its stream to the end. `onHead` gets the head of the response as text. */
export async function readEvents(connection: Connection, request: string, reader: Reader): Promise<void> {
  let refused: string | null = null
  const sse = sseReader(reader.event)
  const { status } = await connection.stream(request, {
    head({ status, text }) {
      if (status !== 200) refused = ''
      else check(/\r\ncontent-type: *text\/event-stream/i.test(text), `the answer is no stream: ${shown(text)}`)
    },
    data(piece) {
      if (refused === null) sse.data(piece)
      else refused += piece.toString()
    },
  })
  check(refused === null, () => `HTTP ${status} instead of a stream: ${shown(refused)}`)
  sse.end()
  reader.end()
}

export const streamRequest = (graph: string, input: unknown, more: { [name: string]: unknown } = {}): string =>
  requestText('POST', '/runs/stream', { assistant_id: graph, input, ...more })

/**
 * Checks ids: from `next` without gaps, or, for other servers, increasing where present. Instead of 0 the first id may be the
 * first of a later attempt: a graph worker without a free slot refuses a run, and the next attempt executes it (decision 052).
 */
export function numbered({ gapless }: Pick<Server, 'gapless'>, next = 0): (id: string | null) => void {
  if (gapless)
    return id => {
      if (next === 0 && id !== null && Number(id) === firstIdOf(attemptOf(Number(id)))) next = Number(id)
      check(id === `${next}`, () => `event ${next} is missing: the next one that came has id ${shown(id)}`)
      next++
    }
  let last = Number.NEGATIVE_INFINITY
  return id => {
    if (id === null || Number.isNaN(Number(id))) return
    check(Number(id) > last, () => `event ${id} came after event ${last}`)
    last = Number(id)
  }
}

/** Checks the events that may precede and follow the requested ones; false for any other event. */
function frame(event: string, data: string, n: number): boolean {
  if (event === 'metadata') {
    check(n === 0, 'the event metadata came in the middle')
    check(runIdOf(data) !== null, () => `the event metadata names no run: ${shown(data)}`)
    return true
  }
  if (event === 'error') throw new Wrong(`the run failed: ${shown(data)}`)
  check(n > 0, () => `the first event is ${event}, not metadata`)
  return event === 'end'
}

/** The run_id of an event metadata; null when it has none. */
export function runIdOf(data: string): string | null {
  const { run_id } = JSON.parse(data) as { run_id?: unknown }
  return typeof run_id === 'string' ? run_id : null
}

/** The custom chunks {i: 0} … {i: count − 1}. `onChunk` is called for each after its check. */
export function customChunks(
  server: Pick<Server, 'gapless'>,
  count: number,
  onChunk: (i: number) => void = () => {},
): Reader {
  const id = numbered(server)
  let n = 0
  let i = 0
  return {
    event(event, data, eventId) {
      id(eventId)
      if (event === 'custom' && n > 0) {
        checkChunk(data, i)
        onChunk(i++)
      } else check(frame(event, data, n), () => `an unexpected event ${event} arrived`)
      n++
    },
    end: () => check(i === count, `the stream ended after ${i} of ${count} chunks`),
  }
}

export function checkChunk(data: string, i: number): void {
  if (data === `{"i":${i}}`) return
  const found = (JSON.parse(data) as { i?: unknown } | null)?.i
  check(found === i, () => `chunk ${i} should have come, not ${shown(data)}`)
}

/** The tokens "w0 ", "w1 " … of the graph chat as tuples of message and metadata. */
export function tokens(server: Pick<Server, 'gapless'>, count: number, onToken: () => void = () => {}): Reader {
  const id = numbered(server)
  let n = 0
  let i = 0
  return {
    event(event, data, eventId) {
      id(eventId)
      if (event === 'messages') {
        const [message] = JSON.parse(data) as [{ content?: unknown; chunk_position?: unknown }]
        n++
        // Models of the Python library end with an empty chunk.
        if (i === count && message?.content === '' && message.chunk_position === 'last') return
        check(message?.content === `w${i} `, () => `token ${i} should have come, not ${shown(message?.content)}`)
        i++
        onToken()
      } else check(frame(event, data, n++), () => `an unexpected event ${event} arrived`)
    },
    end: () => check(i === count, `the stream ended after ${i} of ${count} tokens`),
  }
}

/** The single update of the graph echo. `onData` is called when it arrives. */
export function oneUpdate(server: Pick<Server, 'gapless'>, text: string, onData: () => void): Reader {
  const id = numbered(server)
  let n = 0
  let updates = 0
  return {
    event(event, data, eventId) {
      id(eventId)
      if (event === 'updates') {
        onData()
        const { node } = JSON.parse(data) as { node?: { seen?: unknown } }
        check(node?.seen === text, () => `the update should say "${text}", not ${shown(data)}`)
        updates++
      } else check(frame(event, data, n), () => `an unexpected event ${event} arrived`)
      n++
    },
    end: () => check(updates === 1, `the stream ended with ${updates} updates instead of 1`),
  }
}
