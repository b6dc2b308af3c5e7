/**
 * `/openapi.json`, and `/docs`: a viewer of it that is served from here. The page loads nothing from elsewhere and runs
 * no script but the viewer's; styles may stand in the page, because the viewer writes them there.
 */
import type { Edge } from '../context.js'
import { PAGE_HEADERS, replyFile } from '../files.js'
import type { Exchange } from '../http/exchange.js'
import { PREFIX } from '../http/mount.js'
import { consoleFrom, framed } from '../pages/frame.js'
import { CONTROL, ROUTES } from '../routes.js'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
const MISSING = 'The page of the API is not built: run `npm run build`'

/** Stands for the address of the application in the stored text. */
const BASE = '{base}'

/** The document. Below a deployment it has no control plane. */
export async function openapi(edge: Edge, exchange: Exchange): Promise<void> {
  const { mount } = exchange
  const kind = mount === null ? 'own' : 'deployment'
  const text = await (edge.openapi[kind] ??= textOf(edge, kind))
  const base = mount === null ? (edge.application?.http.mount_prefix ?? '') : 'slug' in mount ? PREFIX + mount.slug : ''
  exchange.reply(200, text.replace(BASE, base || '/'))
}

async function textOf({ application, config, versions }: Edge, kind: 'own' | 'deployment'): Promise<string> {
  // Loaded when somebody asks: the schemas take some megabytes.
  const { documentOf } = await import('./document.js')
  const own = kind === 'own' ? application : null
  const disabled = new Set(own?.http.disabled)
  const routes = ROUTES.filter(
    ({ test, groups, path }) =>
      (!test || config.test) &&
      !groups.some(group => disabled.has(group)) &&
      !(CONTROL.test(path) && kind === 'deployment'),
  )
  return JSON.stringify(
    documentOf({ routes, version: versions.weft, base: BASE, security: own?.auth?.openapi ?? null }),
  )
}

export function docs(edge: Edge, exchange: Exchange): void {
  const base = '.'
  exchange.reply(
    200,
    framed({
      title: 'API · Weft',
      base,
      console: consoleFrom(base, edge, exchange),
      styles: ['house.css', 'viewer.css'],
      scripts: ['swagger-ui-bundle.js', 'viewer.js'],
      body: '<main id="viewer"></main>',
    }),
    { ...PAGE_HEADERS, 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': POLICY },
  )
}

/** A file of the page, or of the first page of the server. */
export async function docsFile({ viewer }: Edge, exchange: Exchange): Promise<void> {
  const { file: name = '' } = exchange.params
  const files = await viewer.files().catch(() => null)
  if (files === null) return exchange.refuse('not_found', MISSING)
  const file = files.get(name)
  if (file === undefined) return exchange.refuse('not_found')
  await replyFile(exchange, file, 'max-age=3600')
}
