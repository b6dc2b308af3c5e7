import t, { type Test } from 'tap'
import { openStage } from '../stage.js'

async function open(t: Test, config: Parameters<typeof openStage>[0] = {}) {
  const stage = await openStage(config)
  t.teardown(() => stage.close())
  return (path: string, accept = 'text/html,*/*;q=0.8') =>
    fetch(`http://127.0.0.1:${stage.port}${path}`, { redirect: 'manual', headers: { accept } })
}

const addressesIn = (html: string) => [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)

t.test('/ is a page for browsers, with links to console, guide and API, and JSON for all others', async t => {
  const ask = await open(t)
  for (const accept of ['*/*', 'application/json']) {
    const answer = await ask('/', accept)
    t.same([answer.headers.get('vary'), await answer.text()], ['Accept', '{"ok":true}'])
  }
  const page = await ask('/')
  t.equal(page.headers.get('vary'), 'Accept')
  t.notMatch(page.headers.get('content-security-policy'), 'unsafe')
  const html = await page.text()
  t.notMatch(html, /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|https?:/)
  const addresses = addressesIn(html)
  for (const address of ['./console', './docs/guide', './docs']) t.ok(addresses.includes(address), address)
})

t.test('what / and /docs load is there', async t => {
  const ask = await open(t)
  for (const path of ['/', '/docs']) {
    const html = await (await ask(path)).text()
    const files = addressesIn(html).filter(address => /\.\w+$/.test(address))
    t.ok(files.length >= 5)
    for (const file of files) {
      const answer = await ask(new URL(file, `http://weft${path}`).pathname)
      t.equal(answer.status, 200, file)
      t.notMatch(answer.headers.get('content-type'), 'json', file)
    }
  }
  t.equal((await ask('/docs/none.css')).status, 404)
})

t.test('no link to a console that is off', async t => {
  const ask = await open(t, { host: '0.0.0.0', insecure: true })
  for (const path of ['/', '/docs']) {
    const html = await (await ask(path)).text()
    t.match(html, 'href="./docs/guide"')
    t.notMatch(html, /href="[^"]*console"/)
  }
})
