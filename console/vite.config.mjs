/** The build of the console: one flat folder with relative addresses, so that it also works behind a prefix. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))

/** Comments and directives of libraries that concern other bundlers. */
const IGNORED = new Set(['INVALID_ANNOTATION', 'MODULE_LEVEL_DIRECTIVE'])

export default defineConfig({
  root: import.meta.dirname,
  base: './',
  // The page is `/console` and its files are below it.
  experimental: {
    renderBuiltUrl: (file, { hostType }) => (hostType === 'html' ? `./console/${file}` : { relative: true }),
  },
  logLevel: 'warn',
  define: { VERSION: JSON.stringify(version) },
  esbuild: { jsx: 'automatic', legalComments: 'none' },
  build: {
    outDir: join(import.meta.dirname, '../dist/console'),
    emptyOutDir: true,
    assetsDir: '',
    // The content security policy has no inline script, font or image.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    rollupOptions: {
      onwarn: (warning, warn) => IGNORED.has(warning.code) || warn(warning),
      // The SDK reaches it, nothing calls it, and its package does not say that a module without callers may be left out.
      treeshake: { moduleSideEffects: file => !file.includes('/node_modules/langsmith/') },
    },
  },
  // `npx vite console` while a server runs on port 2024: changes show without a build.
  server: {
    proxy: Object.fromEntries(
      ['/assistants', '/threads', '/runs', '/store', '/metrics', '/info', '/ok', '/v2'].map(path => [
        path,
        'http://127.0.0.1:2024',
      ]),
    ),
  },
})
