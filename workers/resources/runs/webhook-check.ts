/** Whether a run or a cron may name a webhook: the rules of every outgoing call, and those of the application. */
import type { HttpConfig } from '../../../schemas/application.js'
import { fail } from '../../../schemas/errors.js'
import { isLoopback } from '../../../schemas/loopback.js'
import { isWithin, type WebhookUrlRules, webhookFault } from '../../../schemas/webhooks.js'
import { type Addresses, type Allowed, LOOPBACKS, PRIVATES, refusal } from '../../outbound.js'
import type { Deps } from '../context.js'
import { webhookRules } from '../keys/webhook-settings.js'
import type { WebhookRules } from '../rows/app-settings.js'

/** The URL; null when there is none, or when the application has switched webhooks off. Throws `invalid`. */
export async function webhookOf(
  { allowed, settings }: Deps,
  app: string,
  pool: string,
  given: string | null | undefined,
): Promise<string | null> {
  if (!given) return null
  const rules = await webhookRules({ settings }, app, pool)
  const { url, disabled } = rules
  const reason = isRoute(given)
    ? routeFault(given, url, await settings.get('app_http', app, pool))
    : (refusal(given, allowedFor(rules, allowed)) ?? webhookFault(given, url))
  if (reason !== null) throw fail('invalid', `webhook: ${reason}`)
  return disabled ? null : given
}

/**
 * Addresses that webhooks of an application may call: as WEFT_ALLOW_HOSTS says, less those it closes, and with those it
 * opens if the operator has written its rules.
 */
export function allowedFor({ url, by_operator }: WebhookRules, allowed: Allowed): Allowed {
  const { allowed_domains = [], allowed_ports = [], disable_loopback, disable_private_ips } = url
  const kinds = [
    { list: LOOPBACKS, isClosed: disable_loopback },
    { list: PRIVATES, isClosed: disable_private_ips },
  ]
  const closed = anyOf(kinds.filter(({ isClosed }) => isClosed === true).map(({ list }) => list))
  if (!by_operator) return { ...allowed, closed }
  const opened = kinds.filter(({ isClosed }) => isClosed === false).map(({ list }) => list)
  const isNamed = (host: string) =>
    allowed_domains.some(domain => isWithin(host, domain.toLowerCase())) ||
    (disable_loopback === false && (isLoopback(host) || LOCAL_NAME.test(host)))
  return {
    hosts: { has: host => allowed.hosts.has(host) || isNamed(host) },
    addresses: anyOf([allowed.addresses, ...opened]),
    ports: new Set(allowed_ports),
    closed,
  }
}

/** Further names of the machine, as the official server knows them. */
const LOCAL_NAME = /^(localhost\.localdomain|host\.docker\.internal)$/

const anyOf = (lists: readonly Addresses[]): Addresses => ({
  check: (address, family) => lists.some(list => list.check(address, family)),
})

/** A path names a route of the application's own `http.app` (docs/spec/application.md#webhooks). */
export const isRoute = (webhook: string): boolean => webhook.startsWith('/')

const ABSOLUTE = 'expected an absolute http or https URL'

/**
 * Null when the application accepts webhooks to its own routes, else the sentence why not. Such a call passes without
 * authentication, so an application that authenticates its routes has to allow it by name.
 */
export function routeFault(
  path: string,
  { disable_loopback, max_url_length }: WebhookUrlRules,
  http: HttpConfig | null,
): string | null {
  if (max_url_length !== undefined && path.length > max_url_length)
    return `expected a URL of at most ${max_url_length} characters (webhooks.url.max_url_length)`
  if (!/^\/(?!\/)[\x21-\x7e]*$/.test(path) || path.includes('\\'))
    return `${ABSOLUTE}, or the path of a route in ASCII characters`
  if (!http?.app)
    return `${ABSOLUTE}; a path is a route of http.app of langgraph.json, which this application does not have`
  if (disable_loopback === true) return `${ABSOLUTE}; webhooks.url.disable_loopback refuses paths`
  if (http.enable_custom_route_auth && disable_loopback !== false)
    return `${ABSOLUTE}; http.enable_custom_route_auth refuses paths unless webhooks.url.disable_loopback is false`
  return null
}
