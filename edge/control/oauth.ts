/**
 * The pages of the OAuth flow that a browser opens (docs/spec/oauth.md#flow): the one that sends it to the provider, and
 * the one that it comes back to. They run no script, load nothing, and never contain a token. What providers say is
 * escaped.
 */
import { hash } from 'node:crypto'
import { WeftError } from '../../schemas/errors.js'
import type { BrowserVisit, FlowEnd, FlowStart } from '../../schemas/oauth.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Headers } from '../http/received.js'
import type { Route } from '../routes.js'

/** Redirects to the provider, with the cookie that binds this browser to the flow. */
export async function startConsent(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const visited = await visit<FlowStart>(edge, exchange, route)
  if (visited === null) return
  const { url, cookie } = visited
  const prefix = prefixOf(edge)
  const kind = `Path=/; Max-Age=${cookie.seconds}; HttpOnly; SameSite=Lax${prefix === '' ? '' : '; Secure'}`
  const set = `${prefix}${cookie.name}=${cookie.value}; ${kind}`
  exchange.reply(303, null, { ...SECURITY, Location: url, 'Set-Cookie': set })
}

/** Redeems what the provider has sent, and tells the person the outcome. */
export async function endConsent(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  // A person changed what a GitHub App may access: there is nothing to redeem.
  const query = new URLSearchParams(exchange.query)
  if (query.has('setup_action') && !query.has('state'))
    return page(exchange, 200, { ok: true, title: 'Installation updated', text: 'You can close this window.' })
  const end = await visit<FlowEnd>(edge, exchange, route)
  if (end !== null) page(exchange, end.ok ? 200 : 400, end)
}

/** The answer of a worker; null: there is none, and the page that says why was sent. */
async function visit<T>(edge: Edge, exchange: Exchange, { subject }: Route): Promise<T | null> {
  const { query, received, params, requestId: request_id } = exchange
  const cookies = cookiesOf(received.cookie, prefixOf(edge))
  const body = Buffer.from(JSON.stringify({ query, cookies } satisfies BrowserVisit))
  try {
    const answer = await edge.caller.ask(subject, { request_id, params }, body, { timeout: CALL_MS })
    return JSON.parse(Buffer.from(answer.body).toString()) as T
  } catch (error) {
    const isKnown = error instanceof WeftError && error.code === 'bad_request'
    if (!isKnown) edge.link.log.warn({ err: error, request_id }, 'a page of an OAuth flow could not be answered')
    page(exchange, isKnown ? 400 : 503, { ok: false, title: 'Not connected', text: isKnown ? error.message : AGAIN })
    return null
  }
}

/** Over https, browsers take a cookie of this name from this host alone: no other site of the domain can plant one. */
const prefixOf = ({ config }: Edge): string => (config.public_url.startsWith('https:') ? '__Host-' : '')

const CALL_MS = 60_000
const AGAIN = 'The server could not finish this. Start over.'

/** The cookies of OAuth flows, by their names without the prefix. */
function cookiesOf(header: string, prefix: string): { [name: string]: string } {
  const found: { [name: string]: string } = {}
  for (const [, before, name, value] of header.matchAll(COOKIES)) if (before === prefix) found[name!] = value!
  return found
}

const COOKIES = /(?:^|;)\s*((?:__Host-)?)(weft_oauth_[0-9a-f]{16})=([^;\s]*)/g

function page(exchange: Exchange, status: number, { ok, title, text }: FlowEnd): void {
  exchange.reply(status, pageOf({ ok, title: escaped(title), text: escaped(text) }), {
    ...SECURITY,
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': POLICY,
    'X-Frame-Options': 'DENY',
    'Cross-Origin-Opener-Policy': 'same-origin',
  })
}

const ENTITIES: { readonly [character: string]: string } = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (text: string): string => text.replace(/[&<>"']/g, character => ENTITIES[character]!)

/** The address of these pages has the state, and the code. */
const SECURITY: Headers = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' }

const STYLE = `
:root { color-scheme: light dark; --back: #f6f7f9; --card: #fff; --text: #1b1f26; --quiet: #59616e; --line: #e2e5ea; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14161a; --card: #1d2026; --text: #e9ebef; --quiet: #a3abb8; --line: #2e333c; }
}
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
main { box-sizing: border-box; width: min(26rem, calc(100vw - 2rem)); padding: 2.5rem 2rem; text-align: center;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
svg { width: 48px; height: 48px; }
h1 { margin: 1rem 0 .5rem; font-size: 1.25rem; overflow-wrap: anywhere; }
p { margin: 0; color: var(--quiet); overflow-wrap: anywhere; }
.ok { color: #1a7f4b; } .failed { color: #c0362c; }
@media (prefers-color-scheme: dark) { .ok { color: #4cc38a; } .failed { color: #f2786e; } }
`
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const MARKS = { ok: 'M7 12.5l3.5 3.5L17 9', failed: 'M8 8l8 8M16 8l-8 8' }

const pageOf = ({ ok, title, text }: FlowEnd): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<svg class="${ok ? 'ok' : 'failed'}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="12" cy="12" r="10"/><path d="${ok ? MARKS.ok : MARKS.failed}"/></svg>
<h1>${title}</h1>
<p>${text}</p>
</main>
</body>
</html>
`
