/** A component of `ui` of langgraph.json in a page of another origin, by LoadExternalComponent of the SDK. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import t from 'tap'
import { readAppConfig } from '../../schemas/application.js'
import { root } from '../../scripts/root.js'
import { openStage } from '../edge/stage.js'
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

t.test('a component is bundled, loaded and works with the React of the page', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-ui-'))
  writeFileSync(join(folder, 'ui.tsx'), COMPONENT)
  writeFileSync(join(folder, 'style.css'), 'button { color: rgb(1, 2, 3) }')
  writeFileSync(join(folder, 'broken.tsx'), 'import "./none"')
  const text = JSON.stringify({ graphs: { agent: './a.js:a' }, ui: { agent: './ui.tsx', broken: './broken.tsx' } })
  const application = readAppConfig({ path: join(folder, 'langgraph.json'), env: {}, read: () => text })
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
  const stage = await openStage({ cors_origins: `http://127.0.0.1:${pagePort}` }, application)
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await stage.close()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const api = `http://127.0.0.1:${stage.port}`
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
  const html = await (await ask('agent', { name: `"'><img src=x onerror=alert(1)>` })).text()
  t.notMatch(html, '<img')
  t.match(
    (await fetch(`${api}${/src="[^"]*?(\/ui\/[^"]+)"/.exec(html)![1]}`)).headers.get('content-type'),
    'text/javascript',
  )
  t.equal((await ask('agent', {})).status, 422)
  t.equal((await ask('broken', { name: 'x' })).status, 404)
  t.equal((await fetch(`${api}/ui/agent/none.js`)).status, 404)
  t.equal((await fetch(`${api}/ui/constructor/none.js`)).status, 404)
})
