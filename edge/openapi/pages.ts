/**
 * `/openapi.json`, and `/docs`: a viewer of it that is served from here. The page loads nothing from elsewhere and runs
 * no script but the viewer's; styles may stand in the page, because the viewer writes them there.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { PREFIX } from '../http/mount.js'
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
/** File of the page → its type. */
const FILES: { readonly [file: string]: string } = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
}
const START = 'start.js'

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

export function docs(_edge: Edge, exchange: Exchange): void {
  exchange.reply(200, PAGE, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': POLICY,
    'Referrer-Policy': 'no-referrer',
    'X-Frame-Options': 'DENY',
    'Cross-Origin-Opener-Policy': 'same-origin',
  })
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Weft API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="./docs/swagger-ui.css">
</head>
<body>
<div id="viewer"></div>
<script src="./docs/swagger-ui-bundle.js"></script>
<script src="./docs/${START}"></script>
</body>
</html>
`

/** Relative, so that it also works behind a proxy with a prefix of its own. No validator of another host is called. */
const SCRIPT = `SwaggerUIBundle({ url: './openapi.json', dom_id: '#viewer', deepLinking: true, validatorUrl: null })`

/** A file of the page. */
export async function docsFile(_edge: Edge, exchange: Exchange): Promise<void> {
  const { file = '' } = exchange.params
  const headers = { 'Cache-Control': 'max-age=3600' }
  if (file === START)
    return exchange.reply(200, SCRIPT, { ...headers, 'Content-Type': 'text/javascript; charset=utf-8' })
  const type = Object.hasOwn(FILES, file) ? FILES[file]! : null
  if (type === null) return exchange.refuse('not_found')
  exchange.reply(200, await readFile(join(viewerFolder(), file)), { ...headers, 'Content-Type': type })
}

/** The build copies the viewer; without a build it is where npm has installed it. */
function viewerFolder(): string {
  const built = join(import.meta.dirname, 'viewer')
  return existsSync(built) ? built : dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
}
