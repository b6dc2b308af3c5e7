/** The handler of the Web standard: a Request in, a Response out. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream as NodeStream } from 'node:stream/web'
import { addedTo, type Gate, headersFor, JSON_TYPE, Refusal } from './forward.js'
import type { HandlerOptions } from './types.js'

/** Bytes that a slow client may leave unread here. */
const UNREAD = 64 * 1024
const BODILESS = [204, 205, 304]

export async function answerRequest(
  { forward }: Gate,
  options: HandlerOptions,
  request: Request,
  more: object | undefined,
): Promise<Response> {
  const { method, body, signal } = request
  const { pathname, search, host } = new URL(request.url)
  const headers = headersFor(
    request.headers,
    request.headers.get('host') ?? host,
    await addedTo(request, options, more),
  )
  // Weft takes no body of unknown length with DELETE.
  const whole = method === 'DELETE' && body !== null && headers['content-length'] === undefined
  const bytes = whole ? new Uint8Array(await request.arrayBuffer()) : null
  if (bytes !== null) headers['content-length'] = `${bytes.length}`
  const send = (outgoing: ClientRequest) => {
    if (body === null || bytes !== null) outgoing.end(bytes ?? undefined)
    else pipeline(Readable.fromWeb(body as NodeStream), outgoing, () => {})
  }
  try {
    const { basePath = '' } = options
    const answer = await forward({ method, target: pathname + search, basePath, headers, signal, send })
    const isEmpty = method === 'HEAD' || BODILESS.includes(answer.status)
    if (isEmpty) answer.body.resume()
    return new Response(isEmpty ? null : streamOf(answer.body), { status: answer.status, headers: answer.headers })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return new Response(error.body, { status: error.status, headers: { 'content-type': JSON_TYPE } })
  }
}

/** The bytes as they arrive. Who cancels the stream has disconnected. */
function streamOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let over = false
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        incoming.on('data', (bytes: Uint8Array) => {
          if (over) return
          controller.enqueue(bytes)
          if ((controller.desiredSize ?? 0) <= 0) incoming.pause()
        })
        incoming.once('end', () => {
          if (!over) controller.close()
          over = true
        })
        const failed = () => {
          if (!over) controller.error(new Error('Weft has closed the connection before the end of its answer'))
          over = true
        }
        incoming.once('error', failed).once('close', failed)
      },
      pull() {
        incoming.resume()
      },
      cancel() {
        over = true
        incoming.destroy()
      },
    },
    { highWaterMark: UNREAD, size: bytes => bytes.byteLength },
  )
}
