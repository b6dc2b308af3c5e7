/**
 * `weft-server/handler`: Weft's API inside another server. The handlers send requests on to a Weft that runs already, or to
 * one that they start as a child process; nothing of Weft is loaded into the process of the server (docs/guide/inside.md).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { openGate } from './forward.js'
import { answerNode } from './node.js'
import type { Handler, HandlerOptions, NodeHandler } from './types.js'
import { answerRequest } from './web.js'

export type { AddedHeaders, Handler, HandlerOptions, NodeHandler, RequestOptions, Weft } from './types.js'

/** For Hono, Next and other frameworks that pass a Request. */
export function createHandler(options: HandlerOptions = {}): Handler {
  const gate = openGate(options)
  const handler = (request: Request, more?: object) => answerRequest(gate, options, request, more)
  return Object.assign(handler, gate.weft)
}

/** For Express, Fastify and node:http. */
export function createNodeHandler(options: HandlerOptions = {}): NodeHandler {
  const gate = openGate(options)
  const handler = (request: IncomingMessage, response: ServerResponse, more?: object) =>
    answerNode(gate, options, request, response, more)
  return Object.assign(handler, gate.weft)
}
