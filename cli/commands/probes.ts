/** Probes of one process, for service managers and orchestrators: what a whole cluster can do is `/ready` of an edge. */
import { createServer } from 'node:http'
import { UserError } from '../user-error.js'

/** `/live`: 200 while the process runs. `/ready` and `/ok`: 200 while `isReady`, else 503. */
export function answerProbes(port: number, isReady: () => boolean): Promise<void> {
  const statusOf = (path = '') => {
    if (path === '/live') return 200
    if (path !== '/ready' && path !== '/ok') return 404
    return isReady() ? 200 : 503
  }
  const server = createServer((request, response) => {
    const status = statusOf(request.url?.split('?')[0])
    const headers = { 'content-type': 'application/json', connection: 'close' }
    response.writeHead(status, headers).end(JSON.stringify({ ok: status === 200 }))
  })
  return new Promise((resolve, reject) => {
    server.once('error', ({ message }) =>
      reject(new UserError(`WEFT_HEALTH_PORT=${port} cannot be listened on: ${message}`)),
    )
    // It ends with the process, which answers probes until then.
    server.listen(port, resolve).unref()
  })
}
