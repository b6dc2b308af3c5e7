/**
 * Components of user interfaces (`ui` of langgraph.json, docs/spec/http.md#system), bundled for browsers. The page
 * that loads a component provides React and the SDK, by the globals that the SDK sets there. Files of the application are
 * read, and its Tailwind is executed: with the rights of this process, not with those of a server.
 */
import { createHash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import type { Plugin } from 'esbuild'
import type { UiHead } from '../../../schemas/app-host.js'
import type { AppConfig } from '../../../schemas/application.js'
import { pack } from '../../../schemas/packed.js'
import { tailwind } from './tailwind.js'

/** Modules of the page, as `bootstrapUiContext` of the SDK provides them. */
const PROVIDED = [
  'react',
  'react-dom',
  'react/jsx-runtime',
  '@langchain/langgraph-sdk/react',
  '@langchain/langgraph-sdk/react-ui',
]

const ASSETS = ['.svg', '.png', '.jpg', '.webp', '.woff2']
const MAX_BYTES = 16 * 1024 * 1024

/** The packed bundle; null when langgraph.json names no file for the graph. Throws an Error with the reason. */
export async function bundleUi({ folder, ui, ui_shared }: AppConfig, graph_id: string): Promise<Uint8Array | null> {
  if (!Object.hasOwn(ui, graph_id)) return null
  const { build } = await import('esbuild')
  const file = ui[graph_id]!
  const global = globalOf(graph_id)
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
    globalName: global,
    platform: 'browser',
    target: 'es2020',
    jsx: 'automatic',
    loader: Object.fromEntries(ASSETS.map(extension => [extension, 'file'])),
    logLevel: 'silent',
    plugins: [providedByPage([...PROVIDED, ...ui_shared]), tailwind(folder)],
  })
  const files = outputFiles.map(({ path, contents }) => ({ name: basename(path), size: contents.length }))
  const size = files.reduce((sum, one) => sum + one.size, 0)
  if (size > MAX_BYTES) throw new Error(`the bundle has ${size} bytes; expected at most ${MAX_BYTES}`)
  const parts = outputFiles.map(({ contents }) => contents)
  return pack({ graph_id, global, files } satisfies UiHead, parts)
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
const globalOf = (graph_id: string): string =>
  `__LGUI_${createHash('sha256').update(graph_id).digest('hex').slice(0, 16)}`
