import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { openStage } from '../stage.js'

t.before(() => {
  // Does nothing when the bundle is that of the sources.
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/build-console.mjs')], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the console could not be built')
})

async function open(t: Test, config: Parameters<typeof openStage>[0] = {}) {
  const stage = await openStage(config)
  t.teardown(() => stage.close())
  return (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${stage.port}${path}`, { redirect: 'manual', ...init })
}

t.test('the page is strict about scripts and loads nothing from elsewhere', async t => {
  const ask = await open(t)
  const page = await ask('/console')
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), 'text/html')
  t.equal(page.headers.get('cache-control'), 'no-cache')
  t.equal(page.headers.get('x-content-type-options'), 'nosniff')
  const policy = page.headers.get('content-security-policy') ?? ''
  t.match(policy, "default-src 'none'")
  t.match(policy, "script-src 'self'")
  t.match(policy, "frame-ancestors 'none'")
  t.notMatch(policy, 'unsafe')
  const html = await page.text()
  t.notMatch(
    html,
    /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|https?:/,
    'no inline script or style, no other host',
  )

  const files = [...html.matchAll(/(?:src|href)="\.(\/console\/[^"]+)"/g)].map(([, file]) => file!)
  t.equal(files.length, [...html.matchAll(/(?:src|href)=/g)].length, 'all of them are below the page')
  t.ok(files.some(file => file.endsWith('.js')) && files.some(file => file.endsWith('.css')))
  for (const file of files) {
    const answer = await ask(file)
    t.equal(answer.status, 200, file)
    t.match(answer.headers.get('cache-control'), 'immutable')
    t.ok((await answer.arrayBuffer()).byteLength > 0)
  }
})

t.test('other methods and other files are refused', async t => {
  const ask = await open(t)
  const head = await ask('/console', { method: 'HEAD' })
  t.equal(head.status, 200)
  t.equal(await head.text(), '')
  const post = await ask('/console', { method: 'POST', body: '{}' })
  t.equal(post.status, 405)
  t.equal(post.headers.get('allow'), 'GET, HEAD, OPTIONS')
  for (const path of [
    '/console/none.js',
    '/console/index.html',
    '/console/.built-from',
    '/console/..%252f..%252fpackage.json',
    '/console/a%2fb',
    '/console/a/b',
  ])
    t.equal((await ask(path)).status, 404, path)
  t.equal((await ask('/console/..%2f..%2fpackage.json')).status, 400)
})

t.test('the address of a deployment that clients of the control plane show', async t => {
  const ask = await open(t)
  const id = '0198aaaa-0000-7000-8000-000000000001'
  const path = `/o/${id}/host/deployments/${id}`
  const answer = await ask(path, { redirect: 'manual' })
  t.equal(answer.status, 303)
  const target = new URL(answer.headers.get('location')!, `http://weft/prefix${path}`)
  t.equal(target.href, `http://weft/prefix/console#/deployments/${id}`)
  for (const other of ['1', '%2f%2fevil.example', `${id}x`])
    t.equal((await ask(`/o/${id}/host/deployments/${other}`, { redirect: 'manual' })).status, 404)
})

t.test('with an origin of its own it is there alone', async t => {
  const stage = await openStage({ console_url: 'https://console.example.com' })
  t.teardown(() => stage.close())
  const ask = (host: string, path: string) =>
    new Promise<{ status: number; location: string | undefined }>((resolve, reject) => {
      const { port } = stage
      get({ port, path, headers: { host } }, answer => {
        answer.resume()
        resolve({ status: answer.statusCode!, location: answer.headers.location })
      }).on('error', reject)
    })
  for (const host of ['console.example.com', 'Console.Example.COM', 'console.example.com:443'])
    t.match(await ask(host, '/console'), { status: 200 }, host)
  const id = '0198aaaa-0000-7000-8000-000000000001'
  const page = 'https://console.example.com/console'
  for (const host of ['localhost', '127.0.0.1:2024', 'console.example.com:8443']) {
    t.same(await ask(host, '/console'), { status: 303, location: page }, host)
    t.match(await ask(host, '/console/index.js'), { status: 404 }, host)
    const link = await ask(host, `/o/${id}/host/deployments/${id}`)
    t.same(link, { status: 303, location: `${page}#/deployments/${id}` }, host)
  }
  t.match(await ask('other.example.com', '/console'), { status: 403 }, 'a host that is not served')
  const exposed = await open(t, { host: '0.0.0.0', insecure: true, console_url: 'https://console.example.com' })
  t.equal((await exposed('/console')).status, 404, 'it is still off without authentication')
})

t.test('text is sent compressed to those who take it', async t => {
  const ask = await open(t)
  const plain = await ask('/console', { headers: { 'accept-encoding': 'identity, gzip;q=0' } })
  t.equal(plain.headers.get('content-encoding'), null)
  t.equal(plain.headers.get('vary'), 'Accept-Encoding')
  const packed = await ask('/console', { headers: { 'accept-encoding': 'br, gzip' } })
  t.equal(packed.headers.get('content-encoding'), 'gzip')
  // fetch has unpacked it.
  t.equal(await packed.text(), await plain.text())
})

t.test('all scripts together have at most 250 KB, compressed', async t => {
  const folder = join(root, 'dist/console')
  const scripts = readdirSync(folder).filter(name => name.endsWith('.js'))
  const bytes = scripts.map(name => gzipSync(readFileSync(join(folder, name))).length)
  const sum = bytes.reduce((all, one) => all + one, 0)
  t.ok(sum > 0 && sum <= 250 * 1024, `${sum} bytes`)
})

t.test('it is off where others can reach a server without authentication', async t => {
  const exposed = await open(t, { host: '0.0.0.0', insecure: true })
  for (const path of ['/console', '/console/index.html']) {
    const answer = await exposed(path)
    t.equal(answer.status, 404, path)
    t.match(await answer.json(), { detail: /WEFT_REQUIRE_KEYS=1/ })
  }
  const guarded = await open(t, { host: '0.0.0.0', require_keys: true })
  t.equal((await guarded('/console')).status, 200)
  const insecureOnLoopback = await open(t, { insecure: true })
  t.equal((await insecureOnLoopback('/console')).status, 200)
})
