/**
 * Headers between clients and the code of applications. One row for each that does not simply pass:
 *
 * app     from a client to `http.app` and `auth` of an application
 * graph   from a client into `config.configurable` of a run and into the log, where a setting names the header
 * client  from `http.app` and `auth` into an answer
 *
 * Whatever its row says, no header passes to an application whose value has a key of Weft in it: such a key opens more than
 * this application. docs/authentication.md lists the credentials.
 */
import { type Config, controlKeysOf } from '../../schemas/config.js'

/** `cleaned`: it passes without the parts that are credentials of Weft. `replaced`: the edge writes its own. */
export type Fate = 'passed' | 'stripped' | 'cleaned' | 'replaced'

export interface Crossing {
  /** Lower-case; `*` at its end matches any text. */
  name: string
  app: Fate
  graph: Fate
  client: Fate
}

// biome-ignore format: a table
export const CROSSINGS: readonly Crossing[] = [
  // They belong to one connection (RFC 9110, 7.6.1).
  { name: 'connection', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'keep-alive', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'proxy-connection', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'te', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'trailer', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'transfer-encoding', app: 'stripped', graph: 'passed', client: 'replaced' },
  { name: 'upgrade', app: 'stripped', graph: 'passed', client: 'stripped' },

  // The edge writes or answers them.
  { name: 'expect', app: 'stripped', graph: 'passed', client: 'stripped' },
  { name: 'uwebsockets', app: 'stripped', graph: 'passed', client: 'replaced' },
  { name: 'content-length', app: 'passed', graph: 'passed', client: 'replaced' },
  { name: 'date', app: 'passed', graph: 'passed', client: 'replaced' },
  { name: 'x-request-id', app: 'replaced', graph: 'passed', client: 'replaced' },
  // Headers by which the edge describes a caller, and an application its own requests.
  { name: 'x-weft-*', app: 'replaced', graph: 'stripped', client: 'stripped' },

  // Credentials. Those of the application pass to it.
  { name: 'authorization', app: 'cleaned', graph: 'stripped', client: 'passed' },
  { name: 'x-api-key', app: 'cleaned', graph: 'stripped', client: 'passed' },
  { name: 'cookie', app: 'cleaned', graph: 'stripped', client: 'passed' },
  { name: 'sec-websocket-protocol', app: 'cleaned', graph: 'stripped', client: 'passed' },
  { name: 'proxy-authorization', app: 'stripped', graph: 'stripped', client: 'passed' },
  { name: 'x-tenant-id', app: 'passed', graph: 'stripped', client: 'passed' },
  { name: 'x-service-key', app: 'passed', graph: 'stripped', client: 'passed' },
  // WEFT_PUSH_SECRET.
  { name: 'x-gitlab-token', app: 'stripped', graph: 'stripped', client: 'passed' },

  // Headers of an answer about more than itself: about the whole origin, its other pages, or the windows that open it.
  { name: 'set-cookie', app: 'passed', graph: 'passed', client: 'cleaned' },
  { name: 'service-worker-allowed', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'clear-site-data', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'strict-transport-security', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'public-key-pins', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'expect-ct', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'alt-svc', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'nel', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'report-to', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'accept-ch', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'critical-ch', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'set-login', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'use-as-dictionary', app: 'passed', graph: 'passed', client: 'stripped' },
  { name: 'origin-agent-cluster', app: 'passed', graph: 'passed', client: 'stripped' },
  // With the value of the console a page could keep the window of the console that it has opened.
  { name: 'cross-origin-opener-policy', app: 'passed', graph: 'passed', client: 'stripped' },
]

type Column = 'app' | 'graph' | 'client'

const ANY: Crossing = { name: '*', app: 'passed', graph: 'passed', client: 'passed' }
const byName = new Map(CROSSINGS.map(row => [row.name, row]))
const byPrefix = CROSSINGS.flatMap(row => (row.name.endsWith('*') ? [{ prefix: row.name.slice(0, -1), row }] : []))

/** `name`: in lower case. */
export function fateOf(name: string, column: Column): Fate {
  const row = byName.get(name) ?? byPrefix.find(({ prefix }) => name.startsWith(prefix))?.row ?? ANY
  return row[column]
}

/** Whether a header of this name crosses, maybe without a part of its value. */
export function crosses(name: string, column: Column): boolean {
  const fate = fateOf(name, column)
  return fate === 'passed' || fate === 'cleaned'
}

/** Cookies that bind a browser to an OAuth flow of the control plane. */
export const OAUTH_COOKIE = /^(__Host-)?weft_oauth_/

/** The form of keys of clients, and of a key of the control plane that Weft has made. */
const KEY = /weft_[\w-]{40}/

/** Whether a text has a key of Weft in it. An operator may give the control plane a key of any form. */
export function openKeyFinder(config: Pick<Config, 'control_key'>): (text: string) => boolean {
  const hasForm = (text: string) => text.includes('weft_') && KEY.test(text)
  // Values for applications have a character for each byte.
  const given = controlKeysOf(config).flatMap(key => [...new Set([key, Buffer.from(key).toString('latin1')])])
  return given.length === 0 ? hasForm : text => hasForm(text) || given.some(key => text.includes(key))
}
