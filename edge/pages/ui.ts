/**
 * Components of user interfaces (`ui` of langgraph.json, docs/spec/http.md#system): graph workers bundle them, resource
 * workers keep the bundles, and an edge asks for one again after a few seconds.
 */
import { extname } from 'node:path'
import { decodeJson, unpackAs } from '../../bus/decode.js'
import { validateUiHead } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import { isObject } from '../../schemas/json.js'
import { cutter } from '../../schemas/packed.js'
import type { Bundle, Edge } from '../context.js'
import { EDGE_VALUES } from '../http/body.js'
import type { Exchange } from '../http/exchange.js'
import { PREFIX } from '../http/mount.js'
import type { Route } from '../routes.js'

const CACHE_MS = 5_000
const MAX_KEPT = 100
/** Longer than a resource worker waits for a graph worker. */
const CALL_MS = 40_000

const TYPES: { readonly [extension: string]: string } = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
}

/** Elements and files are parts of pages. Opened as a page, they would run code of the application on this origin. */
const INERT = { 'Content-Security-Policy': "default-src 'none'; sandbox" }

/** Answers with the elements that load the component; the SDK puts them into the page. */
export async function component(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const name = nameIn(body)
  if (name === null) return exchange.refuse('invalid', 'name: expected the name of a component')
  const bundle = await ask(edge, exchange, route)
  const base = await addressOf(edge, exchange)
  exchange.reply(200, elementsOf(base, name, bundle), { ...INERT, 'Content-Type': 'text/html; charset=utf-8' })
}

/** A file of a bundle. */
export async function componentFile(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const { graph_id = '', file = '' } = exchange.params
  const kept = edge.bundles.get(keyOf(exchange, graph_id))
  const isFresh = kept !== undefined && kept.until > performance.now() && kept.bundle.files.has(file)
  const { files } = isFresh ? kept.bundle : await ask(edge, exchange, route)
  const bytes = files.get(file)
  if (bytes === undefined) return exchange.refuse('not_found')
  const type = TYPES[extname(file)] ?? 'application/octet-stream'
  exchange.reply(200, bytes, { ...INERT, 'Content-Type': type, 'Cache-Control': 'max-age=60' })
}

/** Throws bad_request. */
function nameIn(body: Uint8Array): string | null {
  const given = decodeJson(body, { most: EDGE_VALUES })
  return isObject(given) && typeof given.name === 'string' && given.name !== '' ? given.name : null
}

const keyOf = ({ mount }: Exchange, graph_id: string): string => JSON.stringify([mount, graph_id])

/** Asks a resource worker, and keeps the answer for the files. Throws its refusal. */
async function ask({ caller, bundles }: Edge, exchange: Exchange, { subject }: Route): Promise<Bundle> {
  const { body } = await caller.ask(subject, exchange.callHead(), undefined, { timeout: CALL_MS })
  const bundle = bundleIn(body)
  if (bundles.size >= MAX_KEPT) bundles.delete(bundles.keys().next().value!)
  bundles.set(keyOf(exchange, bundle.graph_id), { bundle, until: performance.now() + CACHE_MS })
  return bundle
}

/** Throws internal: a process of the application has made the bytes. */
function bundleIn(bytes: Uint8Array): Bundle {
  try {
    const { head: data, rest } = unpackAs(bytes, validateUiHead)
    if (GLOBAL.test(data.global)) {
      const cut = cutter(rest)
      const files = new Map(data.files.map(({ name, size }) => [name, cut(size)]))
      return { graph_id: data.graph_id, global: data.global, files }
    }
  } catch {
    // It counts as a head of another shape.
  }
  throw fail('internal', 'The bundle of the user interface cannot be read')
}

/** It is written into the elements of a page. */
const GLOBAL = /^__LGUI_[0-9a-f]+$/

/** Where browsers reach the routes of the application, which send no header that names a deployment. */
export async function addressOf({ application, config, deployed }: Edge, exchange: Exchange): Promise<string> {
  const origin = config.public_url || `//${exchange.received.host}`
  const { mount } = exchange
  if (mount === null) return `${origin}${application?.http.mount_prefix ?? ''}`
  const slug = 'slug' in mount ? mount.slug : (await deployed.find(exchange)).slug
  return slug === null ? origin : `${origin}${PREFIX}${slug}`
}

function elementsOf(address: string, name: string, { graph_id, global, files }: Bundle): string {
  const base = `${address}/ui/${encodeURIComponent(graph_id)}`
  // With an Origin header the server answers by its CORS rules; without it, it could not tell pages apart.
  return [...files.keys()]
    .map(file => {
      const url = escapeText(`${base}/${encodeURIComponent(file)}`)
      if (file.endsWith('.css')) return `<link rel="stylesheet" crossorigin="anonymous" href="${url}">`
      if (!file.endsWith('.js')) return ''
      const call = `${global}.render(${JSON.stringify(name)}, "{{shadowRootId}}")`
      return `<script crossorigin="anonymous" src="${url}" onload="${escapeText(call)}"></script>`
    })
    .join('')
}

const escapeText = (text: string): string => text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
