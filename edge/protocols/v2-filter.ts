/**
 * Events of protocol v2 as they pass the edge: the mark in front of each says whether a reader wants it; the mark is
 * taken off, the event itself is never looked into (API: threads-and-runs 17, channels and namespaces).
 */
import type { Ending } from '../../bus/follow.js'
import { type EventsFilter, framesOf, type Mark, readMark } from '../../schemas/protocol-v2.js'
import { type FollowedRun, markOf, seqOf } from '../../schemas/thread-stream.js'

/** Marks whose answer is remembered. */
const MAX_KNOWN = 1_000
const DATA = '\ndata: '

export interface Marked {
  /** The wanted events of a batch, one by one, as frames without their marks; those that tell its end are kept back. */
  pick(bytes: Uint8Array): Uint8Array[]
  /** What was kept back of the run that is over, wanted or not: null when its host told no end. The next run begins. */
  takeLast(): Uint8Array[] | null
  passes(mark: Mark): boolean
}

export function openMarked(filter: EventsFilter): Marked {
  const wanted = wants(filter)
  let known = new Map<string, { passes: boolean; last: boolean }>()
  let last: Uint8Array[] | null = null

  function read(text: string) {
    const found = known.get(text)
    if (found !== undefined) return found
    if (known.size >= MAX_KNOWN) known = new Map()
    const mark = readMark(text)
    const answer = { passes: wanted(mark), last: mark.last }
    known.set(text, answer)
    return answer
  }

  return {
    pick(bytes) {
      const picked: Uint8Array[] = []
      for (const { mark: text, frame: whole } of framesOf(bytes)) {
        const mark = read(text)
        const frame = mark.passes ? whole : null
        // What follows an end is of the next attempt: it was none after all.
        if (!mark.last) last = null
        else last ??= []
        if (frame !== null) mark.last ? last!.push(Buffer.from(frame)) : picked.push(frame)
      }
      return picked
    },
    takeLast() {
      const taken = last
      last = null
      return taken
    },
    passes: wanted,
  }
}

/** `custom` wants every custom event; a segment without `:suffix` means any task of that node. */
function wants({ channels, namespaces, depth }: EventsFilter): (mark: Mark) => boolean {
  const names = new Set(channels)
  const isBelow = (namespace: readonly string[], prefix: readonly string[]) =>
    prefix.length <= namespace.length &&
    prefix.every((segment, i) => namespace[i] === segment || namespace[i]!.split(':', 1)[0] === segment) &&
    (depth === null || namespace.length - prefix.length <= depth)
  return ({ channel, namespace }) => {
    if (!names.has(channel) && !(channel.startsWith('custom:') && names.has('custom'))) return false
    return namespaces === null || namespaces.some(prefix => isBelow(namespace, prefix))
  }
}

/** The JSON text of the event in a frame. */
export function dataOf(frame: Uint8Array): Uint8Array {
  const view = Buffer.from(frame.buffer, frame.byteOffset, frame.length)
  return view.subarray(view.indexOf(DATA, 0, 'latin1') + DATA.length, view.length - 2)
}

const ROOT: Mark = { channel: 'lifecycle', namespace: [], last: true }

/**
 * The end of a run that no host lived to tell, as the frame of a lifecycle event; null when `marked` does not want it.
 * Its number is that of the run's end, so it is the same whenever it is read.
 */
export function endFrame(
  marked: Marked,
  run: FollowedRun,
  end: { id: number; error: NonNullable<Ending['error']> } | { last: number },
): Uint8Array | null {
  if (!marked.passes(ROOT)) return null
  const seq = 'id' in end ? seqOf(end.id, run) : markOf(0, end.last, run)
  const data = 'id' in end ? { event: 'failed', error: end.error.message } : { event: 'interrupted' }
  const event_id = `0-${seq}`
  const params = { namespace: [], timestamp: Date.now(), data }
  const event = { type: 'event', event_id, seq, method: 'lifecycle', params }
  return Buffer.from(`id: ${event_id}\nevent: lifecycle\ndata: ${JSON.stringify(event)}\n\n`)
}
