/** Makes the files that the pages of the edge load: the viewer of the API, and style, fonts and colours of the guide. */
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const target = join(root, 'dist/edge/openapi/viewer')
const page = join(root, 'scripts/guide/page')

/** Folder below the root → file there → its name here. */
const COPIES = {
  'node_modules/swagger-ui-dist': {
    'swagger-ui-bundle.js': 'swagger-ui-bundle.js',
    'swagger-ui-bundle.js.LICENSE.txt': 'swagger-ui-bundle.js.LICENSE.txt',
    'swagger-ui.css': 'swagger-ui.css',
    LICENSE: 'LICENSE',
    NOTICE: 'NOTICE',
  },
  'node_modules/@fontsource-variable/inter': {
    'files/inter-latin-wght-normal.woff2': 'inter.woff2',
    LICENSE: 'inter.LICENSE.txt',
  },
  'node_modules/@fontsource-variable/jetbrains-mono': {
    'files/jetbrains-mono-latin-wght-normal.woff2': 'mono.woff2',
    LICENSE: 'mono.LICENSE.txt',
  },
  'console/src': { 'icon.svg': 'icon.svg' },
  'scripts/guide/page': { 'house.css': 'house.css', 'start.css': 'start.css', 'viewer.css': 'viewer.css' },
}

mkdirSync(target, { recursive: true })
for (const [folder, files] of Object.entries(COPIES))
  for (const [from, name] of Object.entries(files)) cpSync(join(root, folder, from), join(target, name))
await build({
  entryPoints: ['start.ts', 'theme.ts', 'viewer.ts'].map(file => join(page, file)),
  outdir: target,
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  logLevel: 'error',
})
