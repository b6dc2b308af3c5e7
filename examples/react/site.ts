/** Serves the page at /app. It is bundled when the server starts; with `weft dev` again after each change. */
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Hono } from 'hono'

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL('page.tsx', import.meta.url))],
  outdir: 'site',
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' },
})
const TYPES: { [suffix: string]: string } = { js: 'text/javascript', css: 'text/css' }

const HTML = `<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width">
  <link rel="icon" href="data:,">
  <title>Travel guide</title>
  <link rel="stylesheet" href="/app/page.css">
  <div id="root"></div>
  <script type="module" src="/app/page.js"></script>
</html>`

export const app = new Hono()
  .get('/app', c => c.html(HTML))
  .get('/app/:file', c => {
    const file = outputFiles.find(({ path }) => basename(path) === c.req.param('file'))
    const type = TYPES[c.req.param('file').split('.').at(-1) ?? '']
    return file && type ? c.body(file.text, 200, { 'content-type': type }) : c.notFound()
  })
