import t from 'tap'
import { bytesHandler } from '../../../bus/serve.js'
import { openRaw, request } from '../../helpers/raw.js'
import { eventually, openStage, THREAD } from '../stage.js'

const stage = await openStage({ heartbeat_ms: 300 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const create = () => fetch(`${url}/threads/${THREAD}/runs/wait`, { method: 'POST', body: '{}' })

t.test('a wait answers at once, sends blank lines as keep-alive and ends with the result', async t => {
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', `/threads/${THREAD}/runs/wait`, 'Connection: close\r\n', '{}'))
  const run = await created
  await raw.until(/\r\n\r\n1\r\n\n\r\n(1\r\n\n\r\n){2}/)
  stage.finish(run, 'success', { result: '{"answer":42}' })
  const text = await raw.closed
  t.match(text, /Content-Type: application\/json\r\n/)
  t.match(text, `Location: /threads/${THREAD}/runs/${run.head.run_id}/join\r\n`)
  t.match(text, `Content-Location: /threads/${THREAD}/runs/${run.head.run_id}\r\n`)
  t.match(text, /\{"answer":42\}\r\n0\r\n\r\n$/)
})

t.test('a result that is missing in the end message is requested', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  run.result = `{"big":"${'x'.repeat(3_000_000)}"}`
  stage.finish(run)
  t.equal((await answer.text()).trim(), run.result)
})

t.test('a wait whose end message was lost is answered', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  run.head.status = 'success'
  t.same(await answer.json(), { done: true })
})

t.test('an error of the create call is a plain HTTP answer', async t => {
  stage.handlers['runs.create'] = bytesHandler(() => ({ head: { status: 422, detail: 'no' } }))
  const answer = await create()
  delete stage.handlers['runs.create']
  t.equal(answer.status, 422)
})

t.test('joins: of an active run, and of a run that has ended', async t => {
  const run = stage.add()
  const path = `/threads/${THREAD}/runs/${run.head.run_id}/join`
  const answer = await fetch(url + path)
  t.equal(answer.headers.get('location'), path)
  stage.finish(run, 'success', { result: '{"a":1}' })
  t.same(await answer.json(), { a: 1 })
  const again = await fetch(`${url}/runs/${run.head.run_id}/join`)
  t.same(await again.json(), { a: 1 })
  t.equal((await fetch(`${url}/runs/${THREAD}/join`)).status, 404)
})

t.test('a run that ends while it is being joined', async t => {
  const run = stage.add()
  stage.handlers['runs.join'] = bytesHandler(() => {
    const head = { ...run.head }
    stage.finish(run)
    return { head: { run: head } }
  })
  t.same(await (await fetch(`${url}/runs/${run.head.run_id}/join`)).json(), { done: true })
  delete stage.handlers['runs.join']
})

t.test('a client that disconnects is reported, if the run requested it', async t => {
  stage.template = { on_disconnect: 'cancel' }
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/wait', '', '{}'))
  await created
  await raw.until(/200 OK/)
  raw.socket.destroy()
  const reported = () => stage.calls.filter(call => call.verb === 'runs.disconnect').length
  await eventually(t, () => reported() === 1, 'a disconnect')
  stage.template = {}
})
