/** The end of a request: it is counted, its span ends, and its place among the streams is free again. */
import type { Tracer } from '../../bus/otlp/traces.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'

export function countAtEnd({ traffic }: Edge, exchange: Exchange, route: Route): void {
  const { onOver } = exchange
  exchange.onOver = () => {
    traffic.count(route, exchange)
    onOver?.()
  }
}

/** Counts the request among the open streams of the client's address until it ends; false: the address has too many. */
export function takePlace(clients: Edge['clients'], exchange: Exchange): boolean {
  const release = clients.openStream(exchange)
  if (release === null) return false
  const { onOver } = exchange
  exchange.onOver = () => {
    release()
    onOver?.()
  }
  return true
}

/** Starts the span of a request, which lasts as long as its answer; what the request causes is part of it. */
export function endSpanAtEnd(tracer: Tracer, exchange: Exchange, { method, path }: Route): void {
  const span = tracer.start(`${method} ${path}`, {
    kind: 'server',
    parent: exchange.traceparent || undefined,
    attributes: { 'http.request.method': method, 'http.route': path, 'weft.request_id': exchange.requestId },
  })
  exchange.traceparent = span.traceparent
  const { onOver } = exchange
  exchange.onOver = () => {
    span.end(exchange.status >= 500 ? `status ${exchange.status}` : null)
    onOver?.()
  }
}
