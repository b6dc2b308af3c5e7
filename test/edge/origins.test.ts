/** Which pages may call: a request without a preflight has its effect even if the page cannot read the answer. */
import t from 'tap'
import { openRaw } from '../helpers/raw.js'
import { openStage } from './stage.js'

const GOOD = 'https://good.example'
const EVIL = 'https://evil.example'
const POSTS = [
  '/threads',
  '/assistants',
  '/runs',
  '/runs/wait',
  '/runs/stream',
  '/runs/cancel?action=rollback',
  '/runs/crons',
]

async function status(port: number, method: string, path: string, headers: string[]): Promise<number> {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: localhost:${port}`, 'Connection: close', ...headers]
  if (method === 'POST') lines.push('Content-Length: 2')
  const raw = openRaw(port, `${lines.join('\r\n')}\r\n\r\n${method === 'POST' ? '{}' : ''}`)
  const text = await raw.until(/HTTP\/1\.1 \d+/)
  raw.socket.destroy()
  return Number(/HTTP\/1\.1 (\d+)/.exec(text)![1])
}

t.test('with a list of origins', async t => {
  const stage = await openStage({ cors_origins: GOOD })
  t.teardown(() => stage.close())
  const { port } = stage
  await t.test('a simple request of an unlisted page is refused before it has an effect', async t => {
    for (const path of POSTS)
      for (const origin of [EVIL, 'null'])
        for (const type of ['Content-Type: text/plain', 'Content-Type: application/json'])
          t.equal(await status(port, 'POST', path, [`Origin: ${origin}`, type]), 403, `${path} ${origin} ${type}`)
    t.equal(await status(port, 'POST', '/threads', ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors']), 403)
    t.equal(await status(port, 'GET', '/ok', [`Origin: ${EVIL}`]), 403)
    t.equal(stage.calls.length, 0, 'no worker was called')
  })
  await t.test('listed pages, pages of the server and programs may call', async t => {
    t.equal(await status(port, 'POST', '/threads', [`Origin: ${GOOD}`, 'Sec-Fetch-Site: cross-site']), 200)
    t.equal(await status(port, 'POST', '/threads', [`Origin: http://localhost:${port}`]), 200)
    t.equal(await status(port, 'POST', '/threads', []), 200)
    t.equal(await status(port, 'GET', '/ok', ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate']), 200, 'a link')
    t.equal(await status(port, 'GET', '/ok', ['Sec-Fetch-Site: same-origin']), 200)
  })
})

t.test('by default every page may call', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  t.equal(await status(stage.port, 'POST', '/threads', [`Origin: ${EVIL}`]), 200)
  t.equal(await status(stage.port, 'POST', '/threads', ['Sec-Fetch-Site: cross-site']), 200)
})
