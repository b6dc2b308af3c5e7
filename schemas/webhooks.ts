/** Webhooks as the application configures them (API: assistants-crons-store 7.4). */
import type { tags } from 'typia'

export interface WebhookConfig {
  /** Prefix of the variables that header templates may name. */
  env_prefix: string
  /** Templates: `text ${{ env.LG_WEBHOOK_NAME }}`. */
  headers: { [name: string]: string }
  url: WebhookUrlRules
}

/** Which addresses webhooks may use, beside the rules of every outgoing call. */
export interface WebhookUrlRules {
  require_https?: boolean
  /** `*.x.com` matches subdomains of x.com only. */
  allowed_domains?: string[]
  allowed_ports?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<65535>)[]
  max_url_length?: number & tags.Type<'uint32'> & tags.Minimum<1>
  /** True when absent. */
  disable_loopback?: boolean
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
