/** examples/next in a browser, without Next itself: the page, and the route that has the API inside. */
import { rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { serve } from '@hono/node-server'
import { build } from 'esbuild'
import { Hono } from 'hono'
import t from 'tap'
import { root } from '../../cli/root.js'
import { openBrowser } from './browser.js'
import { copyExample } from './example-copy.js'

t.setTimeout(120_000)
const HANDLER = pathToFileURL(join(root, 'dist/programs/handler.js')).href
type Methods = { [method: string]: (request: Request, context: object) => Promise<Response> }

/** The page as Next would send it. */
async function bundlePage(folder: string): Promise<string> {
  const contents = `import { createRoot } from 'react-dom/client'
    import Page from './app/page.tsx'
    createRoot(document.getElementById('root')).render(<Page />)`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: folder, loader: 'tsx' },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"' },
    logLevel: 'error',
  })
  return outputFiles[0]!.text
}

/** The route with the handler beside it, not in it (next.config.mjs). */
async function loadRoute(folder: string): Promise<Methods> {
  const outfile = join(folder, 'route.mjs')
  await build({
    entryPoints: [join(folder, 'app/api/agent/[...path]/route.ts')],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    plugins: [
      {
        name: 'not-bundled',
        setup: ({ onResolve }) => onResolve({ filter: /^weft-server\// }, () => ({ path: HANDLER, external: true })),
      },
    ],
    logLevel: 'error',
  })
  process.chdir(folder)
  return import(pathToFileURL(outfile).href)
}

t.test('the page streams two answers from the API of its own server', async t => {
  const before = process.cwd()
  const folder = copyExample('next')
  for (const name of ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY']) delete process.env[name]
  const [page, route] = [await bundlePage(folder), await loadRoute(folder)]
  const { createHandler } = (await import(HANDLER)) as typeof import('../../handler/handler.js')
  const weft = createHandler({ app: './agent' })
  t.teardown(async () => {
    await weft.close()
    process.chdir(before)
    rmSync(folder, { recursive: true, force: true })
  })
  const app = new Hono()
    .get('/', c =>
      c.html('<link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/page.js"></script>'),
    )
    .get('/page.js', c => c.body(page, 200, { 'content-type': 'text/javascript' }))
    .all('/api/agent/*', c => route[c.req.method]!(c.req.raw, { params: Promise.resolve({ path: [] }) }))
  const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }) as Server
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const tab = await browser.newPage()
  const errors: string[] = []
  tab.on('console', message => message.type() === 'error' && errors.push(message.text()))
  tab.on('pageerror', error => errors.push(String(error)))
  await tab.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  for (const [says, answer] of [
    ['a week in Turin', 'not need.'],
    ['and for the way back?', 'too soon.'],
  ] as const) {
    await tab.getByLabel('Message').fill(says)
    await tab.getByRole('button', { name: 'Send' }).click()
    await tab.locator('li', { hasText: answer }).waitFor()
    await tab.getByRole('button', { name: 'Send' }).waitFor()
  }
  t.equal(await tab.locator('li').count(), 4)
  t.same(errors, [])
})
