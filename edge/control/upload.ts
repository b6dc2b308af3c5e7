/**
 * Receives the source of a deployment by a signed URL (decision 054), a part at a time: each one is stored before more
 * bytes are read, so an upload of any size costs 1 MB of memory. What breaks off leaves nothing behind.
 */
import { createHash } from 'node:crypto'
import type { CallHead } from '../../schemas/calls.js'
import { PART_BYTES, PART_MS, type UploadBegun, type UploadEnd } from '../../schemas/deploy-calls.js'
import { fail } from '../../schemas/errors.js'
import { rpc } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'

/** A part, and what arrives while it is stored. */
const MEMORY = 2 * PART_BYTES
const CALL_MS = 30_000
const DRAIN_MS = 30_000
const DRAIN_PAUSE_MS = 1_000

export async function receiveUpload(edge: Edge, exchange: Exchange, { subject }: Route): Promise<void> {
  const limit = edge.config.upload_mb * 1024 ** 2
  const { length } = exchange.received
  if (edge.bodies.held + MEMORY > edge.bodies.most)
    return exchange.refuseAndClose(429, 'Too many request bodies at once')
  const parts = openParts(exchange, limit, tooLarge(edge))
  edge.bodies.held += MEMORY
  try {
    if (length > limit) throw fail('too_large', tooLarge(edge))
    const { requestId: request_id, params, query } = exchange
    const { body } = await edge.caller.ask(subject, { request_id, params, query }, undefined, { timeout: CALL_MS })
    const { token } = JSON.parse(Buffer.from(body).toString()) as UploadBegun
    await store(edge, exchange, parts, { request_id, params: { ...params, token } })
  } catch (error) {
    await parts.drain()
    throw error
  } finally {
    edge.bodies.held -= MEMORY
  }
}

async function store(edge: Edge, exchange: Exchange, parts: Parts, head: CallHead): Promise<void> {
  try {
    const digest = createHash('sha256')
    let size = 0
    let n = 0
    for (let part = await parts.next(); part !== null; part = await parts.next()) {
      digest.update(part)
      size += part.length
      await ask(edge, 'upload_part', { ...head, params: { ...head.params, part: `${n++}` } }, part)
    }
    if (n === 0) throw fail('bad_request', 'The body is empty: expected a tar archive, compressed by gzip')
    const end: UploadEnd = { size, sha256: digest.digest('hex'), parts: n }
    await ask(edge, 'upload_end', head, Buffer.from(JSON.stringify(end)))
    exchange.reply(200, JSON.stringify({ size, sha256: end.sha256 }))
  } catch (error) {
    // The sweep removes what this does not reach.
    void ask(edge, 'upload_abort', head).catch(() => {})
    throw error
  }
}

const ask = (edge: Edge, verb: string, head: CallHead, body?: Uint8Array) =>
  edge.caller.askUntilAnswered(rpc('deployments', verb), head, body, {
    until: performance.now() + CALL_MS,
    timeout: CALL_MS,
    signal: edge.stopping,
  })

const tooLarge = ({ config }: Edge): string =>
  `The archive is larger than ${config.upload_mb} MB: leave files out by .dockerignore or .gitignore, or raise WEFT_UPLOAD_MB`

const TOO_SLOW = `${PART_BYTES} bytes did not arrive within ${PART_MS / 1_000} s`

interface Parts {
  /** PART_BYTES bytes, the rest of the body, or null at its end. Throws when the client is too slow or has left. */
  next(): Promise<Uint8Array | null>
  /**
   * Drops what the client still sends: many read the answer only after that. Ends with the body, when nothing arrives for
   * a second, or after 30 s.
   */
  drain(): Promise<void>
}

/** The body of a request in parts of PART_BYTES; it arrives only while `next` waits for more. */
function openParts(exchange: Exchange, limit: number, tooLarge: string): Parts {
  let chunks: Buffer[] = []
  let size = 0
  let received = 0
  let isEnded = exchange.received.length <= 0 && exchange.received.encodings === 0
  let failure: Error | null = null
  let wake = () => {}

  exchange.pause()
  if (exchange.received.length > limit) exchange.received.close = true
  const tooSlow = () => {
    failure ??= fail('unavailable', TOO_SLOW)
    exchange.received.close = true
    exchange.error(408, TOO_SLOW)
  }
  exchange.onAbort = () => {
    failure ??= fail('unavailable', 'The client has left')
    wake()
  }
  exchange.onData((chunk, last) => {
    received += chunk.byteLength
    if (received > limit) {
      failure ??= fail('too_large', tooLarge)
      exchange.received.close = true
    }
    if (failure === null) {
      // Its memory is only valid during the call.
      chunks.push(Buffer.from(new Uint8Array(chunk)))
      size += chunk.byteLength
    }
    isEnded ||= last
    wake()
  })

  /** Resolves to whether something arrived, or the client left, within `ms`. */
  const arrival = (ms: number) =>
    new Promise<boolean>(resolve => {
      const timer = setTimeout(() => resolve(false), ms)
      wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })

  return {
    async next() {
      const until = performance.now() + PART_MS
      if (size < PART_BYTES && !isEnded) exchange.resume()
      while (size < PART_BYTES && !isEnded && failure === null)
        if (!(await arrival(Math.max(0, until - performance.now())))) tooSlow()
      if (failure !== null) throw failure
      // The next request of the connection must arrive.
      if (isEnded) exchange.resume()
      else exchange.pause()
      if (size === 0) return null
      const all = Buffer.concat(chunks, size)
      const part = all.subarray(0, PART_BYTES)
      chunks = all.length > PART_BYTES ? [all.subarray(PART_BYTES)] : []
      size = all.length - part.length
      return part
    },
    async drain() {
      failure ??= fail('unavailable')
      chunks = []
      exchange.resume()
      const until = performance.now() + DRAIN_MS
      let arrives = true
      while (arrives && !isEnded && !exchange.over && performance.now() < until) arrives = await arrival(DRAIN_PAUSE_MS)
    },
  }
}
