import t from 'tap'
import { bytesHandler } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import { figureOf } from '../../helpers/figures.js'
import { openRaw, request } from '../../helpers/raw.js'
import { eventually, frame, frames, idsIn, openStage, THREAD } from '../stage.js'

const HELLO = ': connected\n'
const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const create = (path = '/runs/stream', init: RequestInit = {}) =>
  fetch(url + path, { method: 'POST', body: '{"assistant_id":"a"}', ...init })
const disconnects = () => stage.calls.filter(call => call.verb === 'runs.disconnect')
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('a created stream carries every event in order and ends after the last one', async t => {
  const created = stage.created()
  const answer = await create(`/threads/${THREAD}/runs/stream`)
  const run = await created
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/event-stream')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('x-accel-buffering'), 'no')
  t.equal(answer.headers.get('content-location'), `/threads/${THREAD}/runs/${run.head.run_id}`)
  t.equal(answer.headers.get('location'), `/threads/${THREAD}/runs/${run.head.run_id}/stream`)
  stage.publish(run, 0, 3)
  stage.publish(run, 3, 2)
  stage.finish(run)
  t.equal(await answer.text(), `${HELLO}${frames(0, 5)}`)
})

t.test('a stateless run has short urls', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  t.equal(answer.headers.get('content-location'), `/runs/${run.head.run_id}`)
  t.equal(answer.headers.get('location'), `/runs/${run.head.run_id}/stream`)
  stage.publish(run, 0, 1)
  stage.finish(run)
  t.same(idsIn(await answer.text()), [0])
})

t.test('a background run is answered with its row', async t => {
  const answer = await create(`/threads/${THREAD}/runs`)
  const { run_id, mode } = (await answer.json()) as { run_id: string; mode: string }
  t.equal(mode, 'background')
  t.equal(answer.headers.get('content-location'), `/threads/${THREAD}/runs/${run_id}`)
  t.equal(answer.headers.get('location'), null)
})

t.test('an error of the create call is a plain HTTP answer', async t => {
  stage.handlers['runs.create'] = bytesHandler(() => {
    throw fail('conflict', 'The thread is busy')
  })
  const answer = await create()
  delete stage.handlers['runs.create']
  t.equal(answer.status, 409)
  t.same(await answer.json(), { detail: 'The thread is busy' })
})

t.test('events published before the answer to the create are not lost', async t => {
  const usual = stage.created()
  stage.handlers['runs.create'] = bytesHandler(async (_, { head }) => {
    const run = stage.add({ run_id: head.run!.run_id, stateless: true })
    stage.publish(run, 0, 10)
    stage.finish(run)
    await stage.graph.nc.flush()
    await new Promise(done => setTimeout(done, 50))
    return { head: { run: { ...run.head, status: 'running', last_event_id: null } } }
  })
  const answer = await create()
  delete stage.handlers['runs.create']
  t.same(idsIn(await answer.text()), upTo(10))
  void usual
})

t.test('a heartbeat is one comment line, while the run is queued and while it is idle', async t => {
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  await raw.until(text => text.split(': heartbeat').length > 2)
  stage.publish(run, 0, 1)
  await raw.until(/\nid: 0\n[\s\S]*: heartbeat/)
  stage.publish(run, 1, 1)
  stage.finish(run)
  await raw.until(/\r\n0\r\n\r\n/)
  const body = raw.text().slice(raw.text().indexOf('\r\n\r\n') + 4)
  const text = body.replace(/[0-9a-f]+\r\n/g, '').replace(/\r\n/g, '')
  t.match(text, /^: connected\n(: heartbeat\n){2,}id: 0\n/)
  t.match(text, new RegExp(`${frame(0)}(: heartbeat\n)+${frame(1)}`.replace(/[{}[\]]/g, '\\$&')))
  t.notMatch(text, /: heartbeat\n\n/)
  raw.socket.destroy()
})

t.test('duplicate events are dropped, missing events are replayed', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  stage.replays.length = 0
  stage.publish(run, 0, 5)
  stage.publish(run, 3, 4)
  for (let id = 7; id < 12; id++) run.kept.set(id, frame(id))
  stage.publish(run, 12, 3)
  stage.publish(run, 10, 2)
  stage.publish(run, 15, 1)
  stage.finish(run)
  t.equal(await answer.text(), `${HELLO}${frames(0, 16)}`)
  t.same(stage.replays, [6], 'one replay')
  t.equal(await figureOf(stage.edge, 'weft_stream_gaps_total'), 1)
  t.ok((await figureOf(stage.edge, 'weft_stream_replays_total', { outcome: 'complete' })) >= 1)
})

t.test('a gap that is not filled yet is requested again', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  stage.publish(run, 1, 2)
  setTimeout(() => run.kept.set(0, frame(0)), 300)
  setTimeout(() => stage.finish(run), 600)
  t.same(idsIn(await answer.text()), [0, 1, 2])
})

t.test('a lost tail is fetched after the end', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  stage.publish(run, 0, 2)
  for (let id = 2; id < 6; id++) run.kept.set(id, frame(id))
  stage.finish(run)
  t.same(idsIn(await answer.text()), upTo(6))
})

t.test('a later attempt continues with the ids of its range', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  const second = firstIdOf(2)
  stage.publish(run, 0, 3)
  stage.publish(run, second, 2)
  stage.publish(run, 3, 1)
  run.head.last_event_id = second + 1
  stage.finish(run)
  t.same(idsIn(await answer.text()), [0, 1, 2, second, second + 1])
})

t.test('an error without a host to write it is rendered under the last id', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  stage.publish(run, 0, 2)
  run.head.last_event_id = 2
  stage.finish(run, 'error', { error: { error: 'WorkerLost', message: 'gone' } })
  t.equal(
    await answer.text(),
    `${HELLO}${frames(0, 2)}id: 2\nevent: error\ndata: {"error":"WorkerLost","message":"gone"}\n\n`,
  )
})

t.test('a disconnected client is reported once, if the run requested it', async t => {
  for (const on_disconnect of ['cancel', 'continue'] as const) {
    const before = disconnects().length
    stage.template = { on_disconnect }
    const created = stage.created()
    const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
    const run = await created
    stage.publish(run, 0, 1)
    await raw.until(/\nid: 0\n/)
    raw.socket.destroy()
    if (on_disconnect === 'cancel') await eventually(t, () => disconnects().length > before, 'a disconnect')
    await new Promise(done => setTimeout(done, 100))
    const got = disconnects().slice(before)
    t.equal(got.length, on_disconnect === 'cancel' ? 1 : 0)
    if (got[0]) t.same(JSON.parse(got[0].body.toString()), { run_id: run.head.run_id, reader: false, joined_at: null })
  }
  stage.template = {}
})

t.test('a client that disconnects before the run is accepted is also reported', async t => {
  const before = disconnects().length
  let go: (() => void) | null = null
  stage.handlers['runs.create'] = bytesHandler(async (_, { head }) => {
    await new Promise<void>(done => (go = done))
    return { head: { run: stage.add({ run_id: head.run!.run_id, on_disconnect: 'cancel' }).head } }
  })
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  await eventually(t, () => go !== null, 'the create')
  raw.socket.destroy()
  await new Promise(done => setTimeout(done, 50))
  ;(go as unknown as () => void)()
  delete stage.handlers['runs.create']
  await eventually(t, () => disconnects().length === before + 1, 'a disconnect')
})
