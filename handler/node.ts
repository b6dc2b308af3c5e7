/** The handler of Node.js: for node:http, Express and Fastify. Bytes pass from one connection to the other. */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { addedTo, type Gate, headersFor, JSON_TYPE, Refusal } from './forward.js'
import type { HandlerOptions } from './types.js'

/** The members that Express adds to a request. `body`: of a parser that has read the body before. */
type Received = IncomingMessage & { originalUrl?: string; baseUrl?: string; body?: unknown }

export async function answerNode(
  { forward }: Gate,
  options: HandlerOptions,
  request: Received,
  response: ServerResponse,
  more: object | undefined,
): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const { method = 'GET', originalUrl, url = '/', baseUrl = '' } = request
  const { host = '', ':authority': authority = host } = request.headers as { [name: string]: string | undefined }
  try {
    const headers = headersFor(Object.entries(request.headers), authority, await addedTo(request, options, more))
    const parsed = request.readableEnded && request.body != null ? bytesOf(request.body) : null
    if (parsed !== null) {
      headers['content-length'] = `${parsed.length}`
      // A parser has unpacked it.
      delete headers['content-encoding']
    }
    const send = (outgoing: ClientRequest) => {
      if (parsed !== null || request.readableEnded) outgoing.end(parsed ?? undefined)
      else pipeline(request, outgoing, () => {})
    }
    const { basePath = baseUrl } = options
    const answer = await forward({
      method,
      target: originalUrl ?? url,
      basePath,
      headers,
      signal: gone.signal,
      send,
    })
    if (response.destroyed) return
    for (const [name, value] of answer.headers) {
      // The server around may have set a header of this name, which is not one of this answer, as CORS.
      if (name.toLowerCase() === 'set-cookie') response.appendHeader(name, value)
      else response.setHeader(name, value)
    }
    response.writeHead(answer.status)
    // The first byte of a stream may be late.
    response.flushHeaders()
    await new Promise<void>(done => pipeline(answer.body, response, () => done()))
  } catch (error) {
    if (response.headersSent || response.destroyed) return void response.destroy()
    if (!(error instanceof Refusal)) throw error
    response.writeHead(error.status, { 'content-type': JSON_TYPE }).end(error.body)
  }
}

function bytesOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}
