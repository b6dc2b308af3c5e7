import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { openStage } from '../stage.js'

t.before(() => {
  // Does nothing when the guide is that of the documents.
  const { status } = spawnSync(process.execPath, [join(root, 'dist/scripts/guide/build.js')], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the guide could not be built')
})

async function open(t: Test, config: Parameters<typeof openStage>[0] = {}) {
  const stage = await openStage(config)
  t.teardown(() => stage.close())
  return (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${stage.port}${path}`, { redirect: 'manual', ...init })
}

t.test('/docs/guide leads to the first page, which is strict and loads nothing from elsewhere', async t => {
  const ask = await open(t)
  const redirect = await ask('/docs/guide')
  t.equal(redirect.status, 303)
  const path = new URL(redirect.headers.get('location')!, 'http://weft/prefix/docs/guide').pathname
  t.equal(path, '/prefix/docs/guide/index.html')

  const page = await ask('/docs/guide/index.html')
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), 'text/html')
  t.equal(page.headers.get('cache-control'), 'no-cache')
  t.equal(page.headers.get('x-content-type-options'), 'nosniff')
  const policy = page.headers.get('content-security-policy') ?? ''
  t.match(policy, "default-src 'none'")
  t.notMatch(policy, 'unsafe')
  const html = await page.text()
  t.notMatch(html, /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/, 'no inline script or style')

  const loaded = [...html.matchAll(/(?:src|href|data-index)="([^"/]+-[0-9a-f]{10}\.\w+)"/g)].map(([, file]) => file!)
  t.ok(loaded.length >= 5)
  for (const file of loaded) {
    const answer = await ask(`/docs/guide/${file}`)
    t.equal(answer.status, 200, file)
    t.match(answer.headers.get('cache-control'), 'immutable')
    t.ok((await answer.arrayBuffer()).byteLength > 0)
  }
})

t.test('programs get llms.txt and the pages as Markdown', async t => {
  const ask = await open(t)
  const index = await ask('/docs/guide/llms.txt')
  t.match(index.headers.get('content-type'), 'text/plain')
  const text = await index.text()
  t.match(text, /^# Weft\n\n> /)
  const pages = [...text.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, page]) => page!)
  t.ok(pages.length > 20)
  for (const page of pages) {
    const answer = await ask(`/docs/guide/${page}`)
    t.equal(answer.status, 200, page)
    t.match(answer.headers.get('content-type'), 'text/markdown')
    t.match(await answer.text(), /^# /m)
  }
  t.match(await (await ask('/docs/guide/llms-full.txt')).text(), /# Quick start/)
})

t.test('other methods and other files are refused', async t => {
  const ask = await open(t)
  t.equal((await ask('/docs/guide/index.html', { method: 'HEAD' })).status, 200)
  t.equal((await ask('/docs/guide', { method: 'POST' })).status, 405)
  t.match((await ask('/docs/guide/tutorial')).headers.get('location'), /^\.\/tutorial\.html$/)
  for (const path of ['/docs/guide/none.html', '/docs/guide/.built-from', '/docs/guide/..%252f..%252fpackage.json'])
    t.equal((await ask(path)).status, 404, path)
  t.equal((await ask('/docs/guide/..%2f..%2fpackage.json')).status, 400)
})

t.test('it is public, also where requests need a key', async t => {
  const ask = await open(t, { host: '0.0.0.0', require_keys: true })
  t.equal((await ask('/docs/guide/index.html')).status, 200)
})
