/** A component of `ui` of langgraph.json in a page of another origin, by LoadExternalComponent of the SDK. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import t from 'tap'
import { root } from '../../cli/root.js'
import { startCluster } from '../helpers/cluster.js'
import { openBrowser } from './browser.js'

t.setTimeout(60_000)

const PAGE = `
import { createElement } from 'react'
import { createRoot } from 'react-dom/client'
import { Client } from '@langchain/langgraph-sdk'
import { LoadExternalComponent } from '@langchain/langgraph-sdk/react-ui'
const client = new Client({ apiUrl: new URLSearchParams(location.search).get('api') })
const stream = { client, assistantId: 'agent' }
createRoot(document.getElementById('root')).render(
  createElement(LoadExternalComponent, { stream, message: { name: 'weather', props: { city: 'Turin' } } }),
)
`
const COMPONENT = `
import { useState } from 'react'
import './style.css'
function Weather({ city }: { city: string }) {
  const [n, setN] = useState(0)
  return <button onClick={() => setN(n + 1)}>{city} {n}</button>
}
export default { weather: Weather }
`

const GRAPH = `
import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ a: Annotation() }))
  .addNode('node', () => ({}))
  .addEdge('__start__', 'node')
  .compile()
`

t.test('a component is bundled, loaded and works with the React of the page', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-ui-'))
  writeFileSync(join(folder, 'ui.tsx'), COMPONENT)
  writeFileSync(join(folder, 'style.css'), 'button { color: rgb(1, 2, 3) }')
  writeFileSync(join(folder, 'broken.tsx'), 'import "./none"')
  writeFileSync(join(folder, 'graph.mjs'), GRAPH)
  const graphs = Object.fromEntries(['agent', 'broken', 'plain'].map(name => [name, './graph.mjs:graph']))
  const ui = { agent: './ui.tsx', 'agent-alias': './ui.tsx', broken: './broken.tsx' }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs, ui }))
  const nodePaths = [join(root, 'node_modules')]
  const { outputFiles } = await build({
    stdin: { contents: PAGE, resolveDir: root },
    bundle: true,
    write: false,
    format: 'esm',
    nodePaths,
    define: { 'process.env.NODE_ENV': '"production"' },
    logLevel: 'error',
  })
  const server = createServer(({ url = '' }, response) => {
    const isScript = url.startsWith('/page.js')
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    response.end(
      isScript ? outputFiles[0]!.text : '<div id="root"></div><script type="module" src="/page.js"></script>',
    )
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const pagePort = (server.address() as AddressInfo).port
  const cluster = await startCluster({
    app: folder,
    env: { CORS_ALLOW_ORIGINS: `http://127.0.0.1:${pagePort}` },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await cluster.stop()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const api = cluster.url
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('pageerror', error => errors.push(error.message))
  await page.goto(`http://127.0.0.1:${pagePort}/?api=${encodeURIComponent(api)}`)
  const button = page.locator('button', { hasText: 'Turin 0' })
  await button.waitFor({ timeout: 30_000 })
  await button.click()
  await page.locator('button', { hasText: 'Turin 1' }).waitFor({ timeout: 10_000 })
  t.equal(
    await page
      .locator('button')
      .evaluate(
        (element: unknown) =>
          (globalThis as unknown as { getComputedStyle(of: unknown): { color: string } }).getComputedStyle(element)
            .color,
      ),
    'rgb(1, 2, 3)',
  )
  t.same(errors, [])

  const ask = (path: string, body: unknown) =>
    fetch(`${api}/ui/${path}`, { method: 'POST', body: JSON.stringify(body) })
  const elements = await ask('agent', { name: `"'><img src=x onerror=alert(1)>` })
  const html = await elements.text()
  t.notMatch(html, '<img')
  const file = await fetch(`${api}${/src="[^"]*?(\/ui\/[^"]+)"/.exec(html)![1]}`)
  t.match(file.headers.get('content-type'), 'text/javascript')
  for (const { headers } of [elements, file])
    t.match(headers.get('content-security-policy'), /sandbox$/, 'opened as a page it runs nothing')
  t.equal((await ask('agent', {})).status, 422)
  const alias = await (await ask('agent-alias', { name: 'weather' })).text()
  t.match(alias, /\/ui\/agent-alias\//, 'a name that is no graph')
  t.equal((await fetch(`${api}${/src="[^"]*?(\/ui\/[^"]+)"/.exec(alias)![1]}`)).status, 200)
  t.same(await (await ask('nobody', { name: 'x' })).json(), { detail: 'There is no user interface for "nobody"' })
  const broken = await ask('broken', { name: 'x' })
  t.equal(broken.status, 500)
  t.match(cluster.output(), /The user interface of \\?"broken\\?" could not be bundled/)
  t.match(cluster.output(), /Could not resolve \\?".\/none/, 'the log has the reason')
  const plain = await ask('plain', { name: 'x' })
  t.equal(plain.status, 404)
  t.same(await plain.json(), { detail: 'There is no user interface for "plain"' })
  t.equal((await fetch(`${api}/ui/agent/none.js`)).status, 404)
  t.equal((await fetch(`${api}/ui/constructor/none.js`)).status, 404)
})
