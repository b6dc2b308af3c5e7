/** A model server on loopback that costs nothing and answers by rule, in the wire forms of OpenAI and Anthropic. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { replyTo } from './answer.js'
import { messages } from './anthropic.js'
import { chatCompletions, embeddings, responses, type Wire } from './openai.js'
import { tokensFolder } from './tokens.js'

const WIRES: { readonly [path: string]: Wire } = {
  '/v1/chat/completions': chatCompletions,
  '/v1/responses': responses,
  '/v1/messages': messages,
}

/** A page for tools that read the web. */
const PAGE = '/page'

export interface ModelServer {
  url: string
  /** Variables by which the clients of applications call this server. */
  env: { [name: string]: string }
  stop(): void
}

export async function startModel(): Promise<ModelServer> {
  let url = ''
  const server = createServer((request, response) => {
    serve(request, response, url + PAGE).catch((error: Error) => {
      if (!response.headersSent) response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message: `fake model: ${error.message}` } }))
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    env: {
      ...{ OPENAI_API_KEY: 'none', OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_BASE: `${url}/v1` },
      ...{ ANTHROPIC_API_KEY: 'none', ANTHROPIC_BASE_URL: url, ANTHROPIC_API_URL: url },
      // Tools of templates are made at import time.
      ...{ TAVILY_API_KEY: 'none', LANGSMITH_TRACING: 'false', TIKTOKEN_CACHE_DIR: tokensFolder() },
    },
    stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function serve(request: IncomingMessage, response: ServerResponse, page: string): Promise<void> {
  if (request.url === PAGE) {
    response.writeHead(200, { 'content-type': 'text/plain' }).end('This page tells little.')
    return
  }
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as { [name: string]: unknown }
  const path = request.url!.split('?')[0]!
  const wire = WIRES[path]
  if (wire === undefined && path !== '/v1/embeddings') {
    response.writeHead(404).end()
    return
  }
  if (wire === undefined || body.stream !== true) {
    const whole = wire === undefined ? embeddings(body) : wire.whole(body, replyTo(wire.question(body), page))
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole))
    return
  }
  const parts = wire.parts(body, replyTo(wire.question(body), page))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const part of parts) {
    if (typeof part === 'string') response.write(`data: ${part}\n\n`)
    else response.write(`${part.type ? `event: ${part.type}\n` : ''}data: ${JSON.stringify(part)}\n\n`)
  }
  response.end()
}
