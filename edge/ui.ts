/**
 * Components of user interfaces (`ui` of langgraph.json, API: assistants-crons-store 5): bundled when the first client
 * asks, and kept. The page that loads a component provides React and the SDK, by the globals that the SDK sets there.
 * No code of the application runs here.
 */
import { createHash } from 'node:crypto'
import { basename, dirname, extname } from 'node:path'
import type { Plugin } from 'esbuild'
import type { Log } from '../bus/log.js'
import type { AppConfig } from '../schemas/application.js'
import { isObject } from '../schemas/json.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import type { Route } from './routes.js'

/** File name → its bytes. */
export type Bundle = ReadonlyMap<string, Uint8Array>

export interface Bundles {
  /** The bundle of the graph, made once; null after a failure, which is logged, and the next call tries again. */
  get(graph: string, make: () => Promise<Bundle>): Promise<Bundle | null>
}

/** One bundle is made at a time. */
export function openBundles(log: Log): Bundles {
  const made = new Map<string, Promise<Bundle | null>>()
  let last: Promise<unknown> = Promise.resolve()
  return {
    get(graph, make) {
      const known = made.get(graph)
      if (known !== undefined) return known
      const bundle = last.then(make).catch((error: Error) => {
        log.error({ graph, error: error.message }, 'a user interface could not be bundled')
        made.delete(graph)
        return null
      })
      last = bundle
      made.set(graph, bundle)
      return bundle
    },
  }
}

/** Modules of the page, as `bootstrapUiContext` of the SDK provides them. */
const PROVIDED = [
  'react',
  'react-dom',
  'react/jsx-runtime',
  '@langchain/langgraph-sdk/react',
  '@langchain/langgraph-sdk/react-ui',
]

const TYPES: { readonly [extension: string]: string } = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
}
const ASSETS = ['.svg', '.png', '.jpg', '.webp', '.woff2']

const decoder = new TextDecoder()

/** Answers with the elements that load the component; the SDK puts them into the page. */
export async function component(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const name = nameIn(body)
  if (name === null) return exchange.refuse('invalid', 'name: expected the name of a component')
  const graph_id = await graphOf(edge, exchange, route)
  const bundle = await bundleOf(edge, exchange, graph_id)
  if (bundle === null) return exchange.refuse('not_found', `There is no user interface for "${graph_id}"`)
  exchange.reply(200, elementsOf(edge, exchange, { graph_id, name, bundle }), {
    'Content-Type': 'text/html; charset=utf-8',
  })
}

/** A file of a bundle. */
export async function componentFile(edge: Edge, exchange: Exchange): Promise<void> {
  const { graph_id = '', file = '' } = exchange.params
  const bytes = (await bundleOf(edge, exchange, graph_id))?.get(file)
  if (bytes === undefined) return exchange.refuse('not_found')
  const type = TYPES[extname(file)] ?? 'application/octet-stream'
  exchange.reply(200, bytes, { 'Content-Type': type, 'Cache-Control': 'max-age=60' })
}

function nameIn(body: Uint8Array): string | null {
  try {
    const given: unknown = JSON.parse(decoder.decode(body))
    return isObject(given) && typeof given.name === 'string' && given.name !== '' ? given.name : null
  } catch {
    return null
  }
}

/** The graph of an assistant; the name of a graph stands for itself. */
async function graphOf(edge: Edge, exchange: Exchange, { subject }: Route): Promise<string> {
  const { assistant_id = '' } = exchange.params
  if (Object.hasOwn(edge.application?.ui ?? {}, assistant_id)) return assistant_id
  const { body } = await edge.caller.ask(subject, exchange.callHead())
  const { graph_id } = JSON.parse(decoder.decode(body)) as { graph_id: string }
  return graph_id
}

/** Null when langgraph.json names no file for it, and below a deployment, whose files are not here. */
async function bundleOf({ application, bundles }: Edge, { mount }: Exchange, graph: string): Promise<Bundle | null> {
  if (application === null || mount !== null || !Object.hasOwn(application.ui, graph)) return null
  return bundles.get(graph, () => bundle(application, graph))
}

async function bundle({ folder, ui, ui_shared }: AppConfig, graph: string): Promise<Bundle> {
  // Its process stays and is shared with other users of the package here.
  const { build } = await import('esbuild')
  const file = ui[graph]!
  const { outputFiles } = await build({
    stdin: { contents: entryOf(file), resolveDir: dirname(file), loader: 'js' },
    absWorkingDir: folder,
    outdir: folder,
    entryNames: 'component-[hash]',
    assetNames: 'asset-[hash]',
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    globalName: globalOf(graph),
    platform: 'browser',
    target: 'es2020',
    jsx: 'automatic',
    loader: Object.fromEntries(ASSETS.map(extension => [extension, 'file'])),
    logLevel: 'silent',
    plugins: [providedByPage([...PROVIDED, ...ui_shared])],
  })
  return new Map(outputFiles.map(({ path, contents }) => [basename(path), contents]))
}

/** `render` gives the component of this name to the SDK, which renders it into an element below the shadow root. */
const entryOf = (file: string): string => `
import components from ${JSON.stringify(file)}
export function render(name, root) {
  const target = document.createElement('div')
  document.getElementById(root).shadowRoot.appendChild(target)
  window[Symbol.for('LGUI_EXT_STORE')].respond(root, components[name], target)
}
`

/** Imports of these modules use the one of the page. */
const providedByPage = (names: readonly string[]): Plugin => ({
  name: 'provided-by-page',
  setup({ onResolve, onLoad }) {
    const provided = new Set(names)
    onResolve({ filter: /^[^.]/ }, ({ path }) => (provided.has(path) ? { path, namespace: 'page' } : null))
    onLoad({ filter: /.*/, namespace: 'page' }, ({ path }) => ({
      contents: `module.exports = window[Symbol.for('LGUI_REQUIRE')](${JSON.stringify(path)})`,
      loader: 'js',
    }))
  },
})

/** A name that is valid in JavaScript whatever the graph is called. */
const globalOf = (graph: string): string => `__LGUI_${createHash('sha256').update(graph).digest('hex').slice(0, 16)}`

interface Loaded {
  graph_id: string
  name: string
  bundle: Bundle
}

function elementsOf({ application, config }: Edge, { received }: Exchange, { graph_id, name, bundle }: Loaded): string {
  const origin = config.public_url || `//${received.host}`
  const base = `${origin}${application?.http.mount_prefix ?? ''}/ui/${encodeURIComponent(graph_id)}`
  // With an Origin header the server answers by its CORS rules; without it, it could not tell pages apart.
  return [...bundle.keys()]
    .map(file => {
      const url = escapeText(`${base}/${file}`)
      if (file.endsWith('.css')) return `<link rel="stylesheet" crossorigin="anonymous" href="${url}">`
      if (!file.endsWith('.js')) return ''
      const call = `${globalOf(graph_id)}.render(${JSON.stringify(name)}, "{{shadowRootId}}")`
      return `<script crossorigin="anonymous" src="${url}" onload="${escapeText(call)}"></script>`
    })
    .join('')
}

const escapeText = (text: string): string => text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
