/**
 * Byte streams to an edge or a graph worker, over the broker: what a TCP connection would be if processes could reach each
 * other's machines. Edges, graph workers and resource workers open them. HTTP travels in them unchanged. A sender has at most WINDOW bytes under way until the reader
 * has taken them. A missing message, a lost broker and a silent peer cut the stream; its end is never guessed.
 *
 * A frame: kind u8, 3 × zero, number u32 (little-endian), bytes.
 */
import { randomBytes } from 'node:crypto'
import { Duplex, pipeline } from 'node:stream'
import type { Msg } from 'nats'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP, type Pool, token } from '../schemas/ids.js'
import { type TunnelRole, tunnelAddress, tunnelToEdge, tunnelToPool } from '../schemas/subjects.js'
import type { Link } from './connect.js'

const FRAME = {
  /** Opener to any process that serves the subject. The reply subject is its address. */
  open: 0,
  /** The answer; the reply subject is the address of the acceptor. */
  accept: 1,
  /** `number` counts the data frames of this direction from 0. */
  data: 2,
  /** No more data follows in this direction; `number` as that of the next data frame. */
  end: 3,
  /** The stream is cut. */
  cut: 4,
  /** The reader took `number` bytes; 0: the peer is there. */
  credit: 5,
} as const

const HEAD = 8
const PIECE = 64 * 1024
const WINDOW = 4 * PIECE
const OPEN_MS = 5_000
/** An idle stream sends a sign this often, and is cut without a sign of its peer for `SILENCE_MS`. */
const SIGN_MS = 5_000
const SILENCE_MS = 20_000
/** Streams of one process. */
const MAX_STREAMS = 10_000
/** Streams to an edge that the graph workers of one application have opened. */
const MAX_OF_ONE = 1_000
const MAX_LISTENERS = 16
const NOTHING = new Uint8Array(0)

export interface Tunnels {
  /** Opens a stream to a graph worker of the pool, or to any edge: for the application of this graph worker, else the built-in one. */
  open(to: Pool | 'any edge'): Duplex
  /** Accepts streams that are opened to this pool. */
  servePool(pool: Pool, accept: (stream: Duplex) => void): void
  /** Accepts streams that are opened to edges. `app`: the application that the opener is, or asks for. */
  serveEdge(accept: (stream: Duplex, app: string, from: 'graphs' | 'resources') => void): void
  close(): void
}

export function openTunnels(link: Link): Tunnels {
  const role = link.role as TunnelRole
  const pool = link.sender === null ? undefined : token<'pool'>('pool', link.sender.pool)
  const streams = new Map<string, TunnelStream>()
  // One subscription for all streams of this process.
  const process_id = randomBytes(16).toString('base64url')
  const addressOf = (id: string) => tunnelAddress(role, `${process_id}.${id}`, pool)

  function add(peer: string | null): TunnelStream | null {
    if (streams.size >= MAX_STREAMS) return null
    const id = randomBytes(16).toString('base64url')
    const address = addressOf(id)
    const send = (to: string, kind: number, number: number, bytes: Uint8Array = NOTHING) => {
      if (link.connected()) link.nc.publish(to, frameOf(kind, number, bytes), { reply: address })
    }
    const stream = new TunnelStream(send, peer)
    streams.set(id, stream)
    stream.once('close', () => streams.delete(id))
    // A stream that is cut before somebody listens must not end the process.
    stream.on('error', () => {})
    return stream
  }

  const frames = link.subscribe(addressOf('*'), ({ subject, data, reply, headers }) => {
    if (reply !== undefined && !isAddress(reply)) return
    const stream = streams.get(subject.slice(subject.lastIndexOf('.') + 1))
    if (stream === undefined) {
      // Its stream has ended here: the peer may not know.
      if (reply !== undefined && data.length >= HEAD && data[0] !== FRAME.cut && data[0] !== FRAME.end)
        link.nc.publish(reply, frameOf(FRAME.cut, 0, NOTHING))
      return
    }
    if (headers?.code === 503) return void stream.destroy(fail('unavailable', NOBODY))
    if (data.length < HEAD) throw new RangeError('a frame of a tunnel is shorter than its head')
    const view = new DataView(data.buffer, data.byteOffset, HEAD)
    stream.receive(data[0]!, view.getUint32(4, true), data.subarray(HEAD), reply)
  })
  const served: { unsubscribe(): void }[] = []
  const signs = setInterval(() => {
    const now = performance.now()
    for (const stream of streams.values()) stream.sign(now)
  }, SIGN_MS)
  signs.unref()
  const cutAll = () => {
    for (const stream of [...streams.values()]) stream.destroy(fail('unavailable', LOST))
  }
  // Frames may have been lost.
  const stopListening = link.onReconnect(cutAll)

  function acceptAt(subject: string, accept: (stream: TunnelStream, subject: string) => void): void {
    const counts = new Map<string, number>()
    const count = (subject: string, by: number) => {
      const now = (counts.get(subject) ?? 0) + by
      if (now > 0) counts.set(subject, now)
      else counts.delete(subject)
    }
    const onOpen = ({ subject, data, reply }: Msg) => {
      if (reply === undefined || !isAddress(reply) || data.length < HEAD || data[0] !== FRAME.open) return
      const isTooMany = role === 'edge' && (counts.get(subject) ?? 0) >= MAX_OF_ONE
      const stream = isTooMany ? null : add(reply)
      if (stream === null) return link.nc.publish(reply, frameOf(FRAME.cut, 0, NOTHING))
      count(subject, 1)
      stream.once('close', () => count(subject, -1))
      stream.sayAccepted()
      accept(stream, subject)
    }
    served.push(link.subscribe(subject, onOpen, { queue: role }))
  }

  return {
    open(to) {
      const stream = add(null)
      if (stream === null) throw fail('too_many', 'Too many streams between edges and graph workers')
      stream.sayOpen(to === 'any edge' ? toEdge(link) : tunnelToPool(to))
      return stream
    },
    servePool: (pool, accept) => acceptAt(tunnelToPool(pool), accept),
    serveEdge(accept) {
      for (const from of ['graphs', 'resources'] as const)
        acceptAt(tunnelToEdge(from, '*'), (stream, subject) =>
          accept(stream, subject.slice(subject.lastIndexOf('.') + 1), from),
        )
    },
    close() {
      clearInterval(signs)
      stopListening()
      for (const one of served) one.unsubscribe()
      cutAll()
      frames.unsubscribe()
    },
  }
}

/** Connects two streams in both directions, until both have ended or one is cut. */
export function relay(one: Duplex, other: Duplex): void {
  // A stream that is cut takes the other one with it.
  pipeline(one, other, () => {})
  pipeline(other, one, () => {})
}

const NOBODY = 'Nobody serves this stream at the moment'
const LOST = 'The connection to the broker was lost'
const SILENT = 'The other end of this stream is silent'
const CUT = 'The other end cut this stream'

/** Whom the stream is for. */
const toEdge = ({ role, sender }: Link): string =>
  role === 'resources'
    ? tunnelToEdge('resources', token('deployment', BUILT_IN_APP))
    : tunnelToEdge('graphs', token('deployment', sender?.app ?? BUILT_IN_APP))

/** The address that a peer names. This process may publish to other subjects, too, and must not do so for others. */
const isAddress = (reply: string): boolean => /^tunnel\.(edge|graphs|resources)\.at\.[\w.-]+$/.test(reply)

function frameOf(kind: number, number: number, bytes: Uint8Array): Uint8Array {
  const out = Buffer.alloc(HEAD + bytes.length)
  out[0] = kind
  out.writeUInt32LE(number >>> 0, 4)
  out.set(bytes, HEAD)
  return out
}

type Send = (to: string, kind: number, number: number, bytes?: Uint8Array) => void

class TunnelStream extends Duplex {
  private sending: { bytes: Uint8Array; at: number; done: (error?: Error | null) => void } | null = null
  private finishing: ((error?: Error | null) => void) | null = null
  private credit = WINDOW
  private sent = 0
  private received = 0
  /** Bytes that the reader has not been credited for. */
  private taken = 0
  /** Received bytes within the window. */
  private held = 0
  private ended = false
  private heardAt = performance.now()
  private sentAt = performance.now()
  private readonly timer: NodeJS.Timeout | null

  constructor(
    private readonly send: Send,
    private peer: string | null,
  ) {
    super({ allowHalfOpen: true })
    // The two pipelines of `relay` listen to it eight times, and who opens or accepts it up to three times: no leak.
    this.setMaxListeners(MAX_LISTENERS)
    this.timer = peer === null ? setTimeout(() => this.destroy(fail('unavailable', NOBODY)), OPEN_MS).unref() : null
  }

  sayOpen(subject: string): void {
    this.send(subject, FRAME.open, 0)
  }

  sayAccepted(): void {
    this.say(FRAME.accept, 0)
  }

  receive(kind: number, number: number, bytes: Uint8Array, reply: string | undefined): void {
    this.heardAt = performance.now()
    if (kind === FRAME.accept) this.onAccept(reply)
    else if (kind === FRAME.data) this.onData(number, bytes)
    else if (kind === FRAME.end) this.onEnd(number)
    else if (kind === FRAME.credit) this.onCredit(number)
    // A peer that has sent and received everything has no stream any more: a late credit is answered by a cut.
    else if (!this.isWhole()) this.destroy(fail('unavailable', CUT))
  }

  /** Sends a sign of life to the peer, and cuts the stream when the peer is silent. Called every SIGN_MS. */
  sign(now: number): void {
    if (this.peer === null) return
    if (now - this.heardAt > SILENCE_MS) this.destroy(fail('unavailable', SILENT))
    else if (now - this.sentAt >= SIGN_MS) this.say(FRAME.credit, 0)
  }

  private say(kind: number, number: number, bytes?: Uint8Array): void {
    if (this.peer === null) return
    this.sentAt = performance.now()
    this.send(this.peer, kind, number, bytes)
  }

  private onAccept(reply: string | undefined): void {
    if (this.peer !== null || reply === undefined) return
    clearTimeout(this.timer ?? undefined)
    this.peer = reply
    this.flush()
  }

  private onData(number: number, bytes: Uint8Array): void {
    if (this.ended || number !== this.received || this.held + bytes.length > WINDOW)
      return void this.destroy(fail('unavailable', CUT))
    this.received = (this.received + 1) >>> 0
    this.held += bytes.length
    this.taken += bytes.length
    // The bytes of the message are this stream's own.
    this.push(bytes)
  }

  private onEnd(number: number): void {
    if (number !== this.received) return void this.destroy(fail('unavailable', CUT))
    this.ended = true
    this.push(null)
  }

  private onCredit(bytes: number): void {
    this.credit = Math.min(WINDOW, this.credit + bytes)
    this.flush()
  }

  /** Both directions have ended; the reader may still have bytes to take. */
  private isWhole(): boolean {
    return this.ended && this.writableFinished
  }

  override _read(): void {
    if (this.taken === 0) return
    this.held -= this.taken
    this.say(FRAME.credit, this.taken)
    this.taken = 0
  }

  override _write(bytes: Uint8Array, _: unknown, done: (error?: Error | null) => void): void {
    this.sending = { bytes, at: 0, done }
    this.flush()
  }

  override _final(done: (error?: Error | null) => void): void {
    this.finishing = done
    this.flush()
  }

  private flush(): void {
    if (this.peer === null || this.destroyed) return
    const { sending } = this
    if (sending !== null) {
      while (sending.at < sending.bytes.length && this.credit > 0) {
        const piece = sending.bytes.subarray(sending.at, sending.at + Math.min(PIECE, this.credit))
        sending.at += piece.length
        this.credit -= piece.length
        this.say(FRAME.data, this.sent, piece)
        this.sent = (this.sent + 1) >>> 0
      }
      if (sending.at < sending.bytes.length) return
      this.sending = null
      return sending.done()
    }
    if (this.finishing === null) return
    this.say(FRAME.end, this.sent)
    const done = this.finishing
    this.finishing = null
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.timer ?? undefined)
    if (!this.isWhole()) this.say(FRAME.cut, 0)
    const { sending, finishing } = this
    this.sending = this.finishing = null
    const cut = error ?? fail('unavailable', CUT)
    sending?.done(cut)
    finishing?.(cut)
    done(error)
  }
}
