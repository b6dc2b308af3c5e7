/** Servers of other frameworks with Weft's API at /agent, as docs/guide/inside.md shows them. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { root } from '../../cli/root.js'
import { createHandler, createNodeHandler } from '../../handler/handler.js'
import type { AddedHeaders, HandlerOptions } from '../../handler/types.js'

const require = createRequire(join(root, 'test/sdk/package.json'))
type Middleware = (request: IncomingMessage, response: ServerResponse, next?: () => void) => void
type Express = { (): { use(path: string | Middleware, then?: Middleware): void } & Middleware; json(): Middleware }
interface Fastify {
  all(path: string, options: object, handler: () => void): void
  listen(address: { host: string; port: number }): Promise<string>
  server: Server
}
type Raw = { raw: IncomingMessage }
type RawReply = { raw: ServerResponse; hijack(): void }

export interface Running {
  /** The base URL for clients. */
  url: string
  close(): Promise<void>
}
/** `more`: what the server around adds to each request. */
type Open = (options: HandlerOptions, more: { headers: AddedHeaders }) => Promise<Running>

const listening = async (server: Server): Promise<Running> => {
  if (!server.listening) await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/agent`,
    close: () =>
      new Promise(done => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}

export const SERVERS: { readonly [name: string]: Open } = {
  'node:http': (options, more) => {
    const weft = createNodeHandler({ ...options, basePath: '/agent' })
    return listening(createServer((request, response) => void weft(request, response, more)))
  },
  Express: (options, more) => {
    const express = require('express') as Express
    const weft = createNodeHandler(options)
    const app = express()
    app.use('/agent', (request, response) => void weft(request, response, more))
    return listening(createServer(app))
  },
  'Express behind a parser': (options, more) => {
    const express = require('express') as Express
    const weft = createNodeHandler(options)
    const app = express()
    app.use(express.json())
    app.use('/agent', (request, response) => void weft(request, response, more))
    return listening(createServer(app))
  },
  Fastify: async (options, more) => {
    const { fastify } = require('fastify') as { fastify(): Fastify }
    const weft = createNodeHandler({ ...options, basePath: '/agent' })
    const app = fastify()
    const onRequest = (request: Raw, reply: RawReply) => {
      reply.hijack()
      return weft(request.raw, reply.raw, more)
    }
    app.all('/agent/*', { onRequest }, () => {})
    await app.listen({ host: '127.0.0.1', port: 0 })
    return listening(app.server)
  },
  Hono: async (options, more) => {
    const weft = createHandler({ ...options, basePath: '/agent' })
    const app = new Hono()
    app.all('/agent/*', c => weft(c.req.raw, more))
    const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }) as Server
    if (!server.listening) await new Promise(done => server.once('listening', done))
    return listening(server)
  },
}
