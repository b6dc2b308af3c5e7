/** The memory of request bodies counts against the budget only while a body waits for its worker. */
import t from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import { collectGarbage } from '../helpers/garbage.js'
import { openRaw, request } from '../helpers/raw.js'
import { eventually, openStage } from './stage.js'

const MB = 1024 * 1024
/** The budget that bodies without a Content-Length share. */
const BODIES = 64 * MB

t.test('an open stream does not hold the budget of its request body', async t => {
  const stage = await openStage({ body_limit: MB, bodies_in_flight: MB })
  t.teardown(() => stage.close())
  const body = JSON.stringify({ assistant_id: 'agent', input: 'x'.repeat(0.9 * MB) })
  for (const path of ['/runs/stream', '/runs/wait', '/runs/stream']) {
    const created = stage.created()
    const raw = openRaw(stage.port, request('POST', path, '', body))
    await raw.until(/HTTP\/1\.1 200/)
    const run = await created
    t.equal(run.head.status, 'running', `${path}: its run continues`)
  }
  const answer = await fetch(`http://127.0.0.1:${stage.port}/threads`, { method: 'POST', body: 'x'.repeat(0.9 * MB) })
  t.equal(answer.status, 200)
})

t.test('a body counts against the budget until its call is answered', async t => {
  const stage = await openStage({ body_limit: MB, bodies_in_flight: MB })
  t.teardown(() => stage.close())
  let answer = () => {}
  const waiting = new Promise<void>(done => (answer = done))
  stage.handlers['threads.create'] = bytesHandler(async () => {
    await waiting
    return { body: '{}' }
  })
  const url = `http://127.0.0.1:${stage.port}/threads`
  const post = () => fetch(url, { method: 'POST', body: 'x'.repeat(0.9 * MB) })
  const first = post()
  await eventually(t, () => stage.calls.length === 1, 'the call')
  t.equal((await post()).status, 429)
  answer()
  t.equal((await first).status, 200)
  t.equal((await post()).status, 200)
})

t.test('endless bodies take a bounded part of the memory', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  const piece = Buffer.from(`40000\r\n${'x'.repeat(0x40000)}\r\n`)
  const held = () => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers
  }
  const before = held()
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, held() - before)), 10)
  const head = 'POST /threads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'
  const senders = Array.from({ length: 30 }, () => {
    const raw = openRaw(stage.port, head)
    const send = () => {
      while (!raw.socket.destroyed && raw.socket.write(piece));
    }
    raw.socket.on('drain', send)
    send()
    return raw
  })
  const texts = await Promise.all(senders.map(({ closed }) => closed))
  clearInterval(watch)
  const refused = texts.filter(text => /HTTP\/1\.1 (413|429) /.test(text))
  t.ok(refused.length >= 25, `${refused.length} of 30 were refused with a status; the others were closed`)
  t.comment(`${Math.round(most / MB)} MB`)
  t.ok(most > 0 && most <= BODIES + 8 * MB, 'their share of the budget, and what is on its way')
  t.equal((await fetch(`http://127.0.0.1:${stage.port}/threads`, { method: 'POST', body: '{}' })).status, 200)
})
