/**
 * The settings of an application for HTTP, beside those of the server (docs/spec/application.md#keys-of-http):
 * which routes are served, below which prefix, to which pages, and which request headers reach graphs and logs.
 */
import type { HttpConfig, RouteGroup } from '../../schemas/application.js'
import type { Config } from '../../schemas/config.js'
import type { ClientAddress } from './client-address.js'
import { type Cors, openCors } from './cors.js'
import { openKeyFinder } from './crossing.js'
import type { Mount } from './mount.js'
import { openPatterns } from './patterns.js'

export interface Policy {
  /** In front of every path of the application; '' for none. */
  prefix: string
  cors: Cors
  /** Whether the graph of a run can read a header, by its lower-case name. */
  isConfigurable(name: string): boolean
  /** Whether the log may show it. */
  isLogged(name: string): boolean
  /** Whether a value has a key of Weft in it, which no graph and no log gets. */
  holdsKey(value: string): boolean
  /** Requests keep all their headers, for the `auth` of the application. */
  keepsHeaders: boolean
  /** False when one of the groups is switched off. */
  serves(groups: readonly RouteGroup[]): boolean
}

interface Callers {
  /** Callers are authenticated: no page of another origin may call unless it is listed. */
  isClosed?: boolean
  keepsHeaders?: boolean
}

/** `http` is null for an application whose langgraph.json is not known here: nothing is switched off. */
export function openPolicy(
  config: Config,
  http: HttpConfig | null,
  { isClosed = false, keepsHeaders = false }: Callers = {},
): Policy {
  const includes = config.configurable_headers.split(',').flatMap(one => one.trim() || [])
  const configured = openPatterns({ includes, excludes: [] })
  const ofApplication = openPatterns(http?.configurable_headers)
  const excluded = openPatterns({ includes: http?.configurable_headers.excludes ?? [], excludes: [] })
  const disabled = new Set(http?.disabled)
  return {
    prefix: http?.mount_prefix ?? '',
    cors: openCors(config.cors_origins || (isClosed ? '' : '*'), { config: http?.cors }),
    keepsHeaders,
    holdsKey: openKeyFinder(config),
    isConfigurable: name => ofApplication(name) || (configured(name) && !excluded(name)),
    isLogged: openPatterns(http?.logging_headers),
    serves: groups => disabled.size === 0 || !groups.some(group => disabled.has(group)),
  }
}

export interface Policies {
  clientAddress: ClientAddress
  own: Policy
  /** The policy of a request for a deployment, until its own policy is known: every header that a graph may see is read. */
  deployed: Policy
  /** Every request is for it, whatever its path and its headers say. */
  mount?: Mount
}

export const openDeployedPolicy = (config: Config, { prefix }: Policy, callers: Callers): Policy => ({
  ...openPolicy(config, null, callers),
  prefix,
  isConfigurable: openPatterns({ includes: ['*'], excludes: [] }),
})
