/** Webhooks as the application configures them (docs/spec/application.md#webhooks). */
import type { tags } from 'typia'
import { isLoopback } from './loopback.js'

export interface WebhookConfig {
  /** Prefix of the variables that header templates may name. */
  env_prefix: string
  /** Templates: `text ${{ env.LG_WEBHOOK_NAME }}`. */
  headers: { [name: string]: string }
  url: WebhookUrlRules
  /** The members of the payload that are sent; null: all. */
  allowed_fields: WebhookField[] | null
}

/** The members of a payload (docs/spec/runs.md#webhooks), and our own `cancel_reason`. */
export type WebhookField =
  | 'run_id'
  | 'thread_id'
  | 'assistant_id'
  | 'created_at'
  | 'updated_at'
  | 'status'
  | 'metadata'
  | 'kwargs'
  | 'multitask_strategy'
  | 'cancel_reason'
  | 'run_started_at'
  | 'run_ended_at'
  | 'webhook_sent_at'
  | 'values'
  | 'error'

/**
 * Which addresses webhooks may use. What they close is closed; what they open beside public addresses counts in the
 * application that the operator starts, and not in deployments.
 */
export interface WebhookUrlRules {
  require_https?: boolean
  /** `*.x.com` matches subdomains of x.com only. Opens the addresses of these hosts. */
  allowed_domains?: string[]
  /** Opens these ports. */
  allowed_ports?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<65535>)[]
  max_url_length?: number & tags.Type<'uint32'> & tags.Minimum<1>
  /** true closes loopback addresses also where WEFT_ALLOW_HOSTS opens them, false opens them. */
  disable_loopback?: boolean
  /** The same for the private addresses of a network. */
  disable_private_ips?: boolean
}

/**
 * The headers of webhooks with the values of their variables. Throws a RangeError for a variable that is not set or
 * lacks the prefix: a webhook without its credential would be refused by each receiver.
 */
export function webhookHeaders(
  { env_prefix, headers }: WebhookConfig,
  env: { readonly [name: string]: string | undefined },
): { [name: string]: string } {
  const resolved: { [name: string]: string } = {}
  for (const [name, template] of Object.entries(headers)) {
    resolved[name] = template.replace(/\$\{\{\s*(.*?)\s*\}\}/g, (_, inner: string) => {
      const variable = /^env\.([A-Za-z_]\w*)$/.exec(inner)?.[1]
      const where = `webhooks.headers["${name}"]`
      if (variable === undefined)
        throw new RangeError(`${where}: expected \${{ env.${env_prefix}NAME }}, got "\${{ ${inner} }}".`)
      if (!variable.startsWith(env_prefix))
        throw new RangeError(`${where}: the variable ${variable} must begin with ${env_prefix}.`)
      const value = env[variable]
      if (value === undefined) throw new RangeError(`${where}: the variable ${variable} is not set.`)
      return value
    })
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e]/.test(resolved[name]!))
      throw new RangeError(`webhooks.headers["${name}"] must be a header: a name and a line of ASCII text.`)
  }
  return resolved
}

/** Webhook settings that a graph worker announces. Templates are resolved in the environment of the application. */
export interface WebhookSettings {
  headers: { [name: string]: string }
  url: WebhookUrlRules
  /** Nothing is sent (`http.disable_webhooks`). */
  disabled: boolean
  /** `allowed_fields`; null or absent: all. */
  fields?: WebhookField[] | null
}

/** Null when the rules of the application allow the URL, else the sentence why not. An invalid URL is not judged here. */
export function webhookFault(text: string, rules: WebhookUrlRules): string | null {
  const { require_https, allowed_domains, allowed_ports, max_url_length, disable_loopback } = rules
  if (max_url_length !== undefined && text.length > max_url_length)
    return `expected a URL of at most ${max_url_length} characters (webhooks.url.max_url_length)`
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null) return null
  if (require_https === true && url.protocol !== 'https:') return 'expected an https URL (webhooks.url.require_https)'
  const host = url.hostname.toLowerCase()
  if (allowed_domains !== undefined && !allowed_domains.some(domain => isWithin(host, domain.toLowerCase())))
    return 'expected a host of webhooks.url.allowed_domains'
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  if (allowed_ports !== undefined && !allowed_ports.includes(port))
    return 'expected a port of webhooks.url.allowed_ports'
  if (disable_loopback === true && isLoopback(host))
    return 'expected an address other than loopback (webhooks.url.disable_loopback)'
  return null
}

/** `*.x.com` matches subdomains of x.com, not x.com. */
export const isWithin = (host: string, domain: string): boolean =>
  domain.startsWith('*.') ? host.endsWith(domain.slice(1)) : host === domain

/** One attempt of a delivery. Times are ISO 8601. */
export interface WebhookAttempt {
  /** From 1; a repeat counts on. */
  attempt: number & tags.Type<'uint32'>
  started_at: string
  /** Null: it is under way. */
  ended_at: string | null
  /** HTTP status of the receiver; null: it did not answer. */
  status: number | null
  /** Why there is no answer. */
  error: string | null
}

/** Answer of `/threads/{id}/runs/{id}/webhook`: the deliveries of the webhook of a run. */
export interface WebhookDeliveries {
  run_id: string
  thread_id: string
  /** Scheme, host and port; of a route of the application its path. Never the query, nor the path on another host. */
  url: string
  /**
   * pending: the run has not ended. scheduled: an attempt follows at `next_attempt_at`. sending: an attempt is under way.
   * given_up: no attempt follows. unknown: an earlier version of Weft, which kept no attempts, has ended the delivery.
   */
  state: 'pending' | 'scheduled' | 'sending' | 'delivered' | 'given_up' | 'unknown'
  next_attempt_at: string | null
  /** The latest 20, oldest first. */
  attempts: WebhookAttempt[]
}
