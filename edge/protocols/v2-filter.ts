/**
 * Filters events of protocol v2 as they pass the edge: the tag in front of each event says whether a reader wants it.
 * The tag is taken off; the event itself is never parsed (docs/spec/protocol-v2.md#event-streams).
 */
import { type EventsFilter, type EventTag, framesOf, readTag } from '../../schemas/protocols/v2.js'
import { endSeqOf, type FollowedRun, seqOf } from '../../schemas/thread-stream.js'
import type { RunError } from '../streams/run-end.js'

/** Tags whose answer is cached. */
const MAX_CACHED = 1_000
const DATA = '\ndata: '

export interface TagFilter {
  /** The wanted events of a batch as frames without their tags; those that say that the run has ended are held back. */
  pick(bytes: Uint8Array): Uint8Array[]
  /** The wanted events that were held back, once the run has ended; null when its host wrote no end. Resets for the next run. */
  takeLast(): Uint8Array[] | null
  passes(tag: EventTag): boolean
}

export function openTagFilter(filter: EventsFilter): TagFilter {
  const passes = matcher(filter)
  let cache = new Map<string, { passes: boolean; last: boolean }>()
  let last: Uint8Array[] | null = null

  function read(text: string) {
    const found = cache.get(text)
    if (found !== undefined) return found
    if (cache.size >= MAX_CACHED) cache = new Map()
    const tag = readTag(text)
    const answer = tag === null ? { passes: false, last: false } : { passes: passes(tag), last: tag.last }
    cache.set(text, answer)
    return answer
  }

  return {
    pick(bytes) {
      const picked: Uint8Array[] = []
      for (const { tag: text, frame: whole } of framesOf(bytes)) {
        const tag = read(text)
        const frame = tag.passes ? whole : null
        // An event behind an end belongs to the next attempt: the end did not count.
        if (!tag.last) last = null
        else last ??= []
        if (frame !== null) tag.last ? last!.push(Buffer.from(frame)) : picked.push(frame)
      }
      return picked
    },
    takeLast() {
      const taken = last
      last = null
      return taken
    },
    passes,
  }
}

/** `custom` wants every custom event; a segment without `:suffix` means any task of that node. */
function matcher({ channels, namespaces, depth }: EventsFilter): (tag: EventTag) => boolean {
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

const ROOT: EventTag = { channel: 'lifecycle', namespace: [], last: true }

/** The names that hosts use. The error of a failed run is in its row, and in the events that are no longer stored. */
const ENDS: { readonly [status: string]: object } = {
  success: { event: 'completed' },
  error: { event: 'failed', error: 'The run failed' },
  timeout: { event: 'failed', error: 'The run took too long' },
}

/**
 * The end of a run that no host was alive to write, or whose events are no longer stored, as the frame of a lifecycle event; null when the filter does not
 * want it. Its number is that of the run's end, so it is the same whenever it is read.
 */
export function endFrame(
  filter: TagFilter,
  run: FollowedRun,
  end: { id: number; error: RunError } | { last: number; status: string },
): Uint8Array | null {
  if (!filter.passes(ROOT)) return null
  const seq = 'id' in end ? seqOf(end.id, run) : endSeqOf(end.last, run)
  const data =
    'id' in end ? { event: 'failed', error: end.error.message } : (ENDS[end.status] ?? { event: 'interrupted' })
  const event_id = `0-${seq}`
  const params = { namespace: [], timestamp: Date.now(), data }
  const event = { type: 'event', event_id, seq, method: 'lifecycle', params }
  return Buffer.from(`id: ${event_id}\nevent: lifecycle\ndata: ${JSON.stringify(event)}\n\n`)
}
