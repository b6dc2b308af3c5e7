/**
 * Bodies that do not fit into one message. The sender announces the size, then sends parts in order, a window at a
 * time: a caller sends the next window when the worker asks for it (`go`), a worker after a flush.
 */
import { fail } from '../schemas/errors.js'
import { TransientMap } from '../schemas/transient.js'
import { KIND, MAX_MESSAGE, messagesOf, NOTHING, sizeOf } from './envelope.js'

/** A 64 MB state with the saves and answers that travel with it; the edge holds clients to their own limit. */
export const MAX_BODY = 256 * 1024 * 1024
const WINDOW = 8

/** The parts of a body as messages, one array per window. `head`: the key of the caller, if it has one. */
export function* windowsOf(id: number, body: Uint8Array, head: Uint8Array = NOTHING): Generator<Uint8Array[]> {
  const room = MAX_MESSAGE - sizeOf({ kind: KIND.part, id, time: 0, head, body: NOTHING })
  let window: Uint8Array[] = []
  for (let at = 0; at < body.length; at += room) {
    const part = { kind: KIND.part, id, time: 0, head, body: body.subarray(at, at + room) }
    if (window.push(...messagesOf([part])) < WINDOW) continue
    yield window
    window = []
  }
  if (window.length > 0) yield window
}

export interface Incoming<Info> {
  /** Allocates the body. Throws too_large, or too_many when the bodies of all callers would exceed the limit. */
  announce(key: string, size: number, info: Info): void
  /**
   * The whole body with its last part; `go` when the sender waits for a request of the next window; null when nothing
   * is due. Throws bad_request on more bytes than announced, and discards the body.
   */
  add(key: string, part: Uint8Array): Uint8Array | 'go' | null
  /** The announcement of the body; null when no such body is being assembled. */
  infoOf(key: string): Info | null
  discard(key: string): void
  discardIf(condition: (info: Info) => boolean): void
  /** Bodies that are being assembled. */
  count(): number
}

/** Assembles announced bodies, at most `limit` bytes at once. */
export function openIncoming<Info>(limit: number): Incoming<Info> {
  const bodies = new TransientMap<string, { info: Info; body: Uint8Array; received: number; parts: number }>()
  let allocated = 0

  function discard(key: string): void {
    allocated -= bodies.get(key)?.body.length ?? 0
    bodies.delete(key)
  }

  return {
    announce(key, size, info) {
      if (size > MAX_BODY) throw fail('too_large')
      if (allocated + size > limit) throw fail('too_many')
      discard(key)
      allocated += size
      bodies.set(key, { info, body: Buffer.allocUnsafe(size), received: 0, parts: 0 })
    },
    add(key, part) {
      const one = bodies.get(key)
      if (one === undefined) return null
      if (one.received + part.length > one.body.length) {
        discard(key)
        throw fail('bad_request', 'The body has more bytes than were announced')
      }
      one.body.set(part, one.received)
      one.received += part.length
      if (one.received < one.body.length) return ++one.parts % WINDOW === 0 ? 'go' : null
      discard(key)
      return one.body
    },
    infoOf: key => bodies.get(key)?.info ?? null,
    discard,
    discardIf(condition) {
      for (const [key, { info }] of bodies) if (condition(info)) discard(key)
    },
    count: () => bodies.size,
  }
}
