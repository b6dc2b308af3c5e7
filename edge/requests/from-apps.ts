/**
 * Requests that code of applications makes through the edge's own sockets: what an application passes on, and requests of
 * its own. They carry no credentials.
 */
import { decodeJson } from '../../bus/decode.js'
import { CALLER, LOOPBACK, RUN_USER } from '../../schemas/app-host.js'
import type { AuthUser } from '../../schemas/auth/auth.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { Cors } from '../http/cors.js'
import type { Exchange } from '../http/exchange.js'
import type { Policies } from '../http/policy.js'
import type { Ticket } from '../keys.js'

/** The policies of a socket for the code of this application alone. */
export const policiesFor = (app: string, of: Policies): Policies => ({
  ...of,
  own: { ...of.own, prefix: '', cors: NO_CORS },
  deployed: { ...of.deployed, cors: NO_CORS },
  ...(app === BUILT_IN_APP ? {} : { mount: { id: app } }),
})

/** Notes who makes a request on such a socket. Throws for a header that names no user. */
export function noteApp(exchange: Exchange, app: string): void {
  // The code of an application has no rights in another one.
  const isOwn = app !== BUILT_IN_APP || exchange.mount === null
  exchange.isLoopback = isOwn && exchange.received.all.some(([name]) => name === LOOPBACK)
  exchange.isPassedOn = true
  if (isOwn) exchange.ticket = ticketIn(exchange, app)
  if (!exchange.isLoopback) return
  exchange.caller = { checked: app }
  exchange.runUser = runUserIn(exchange)
}

/** Notes that the edge makes the request itself. */
export function noteSelf(exchange: Exchange): void {
  exchange.isSelf = true
  const { mount } = exchange
  exchange.ticket = ticketIn(exchange, mount !== null && 'id' in mount ? mount.id : BUILT_IN_APP)
}

/** The user of the run whose code makes the request. Throws for a header that names none. */
function runUserIn({ received }: Exchange): AuthUser | null {
  const text = received.all.find(([name]) => name === RUN_USER)?.[1]
  return text === undefined ? null : (decodeJson(Buffer.from(text, 'base64'), { quote: false }) as AuthUser)
}

/** The ticket that a request on a socket of the edge brings back, for this application. */
function ticketIn({ received }: Exchange, app: string): Ticket | null {
  const text = received.all.find(([name]) => name === CALLER)?.[1]
  return text === undefined ? null : { text, app }
}

/** The outer request has the headers for browsers. */
const NO_CORS: Cors = { allows: () => true, answer: () => [], preflight: () => [] }
