import t from 'tap'
import { bytesHandler } from '../../../bus/serve.js'
import { figureOf } from '../../helpers/figures.js'
import { openRaw, request } from '../../helpers/raw.js'
import { eventually, frame, idsIn, openStage, THREAD } from '../stage.js'

const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('a create whose answer may be lost with the broker is repeated with the same run id', async t => {
  const own = await openStage({})
  t.teardown(() => own.close())
  const ids: string[] = []
  let repeat = () => {}
  const repeated = new Promise<void>(done => (repeat = done))
  own.handlers['runs.create'] = bytesHandler(async (_, { head }) => {
    ids.push(head.run!.run_id)
    if (ids.length === 1) {
      own.nats.kill()
      await own.nats.restart()
      await repeated
    } else repeat()
    const run = own.runs.get(head.run!.run_id) ?? own.add({ run_id: head.run!.run_id, stateless: true })
    return { head: { run: run.head } }
  })
  const answer = await fetch(`http://127.0.0.1:${own.port}/runs/stream`, {
    method: 'POST',
    body: '{"assistant_id":"a"}',
  })
  t.equal(answer.status, 200)
  t.equal(ids.length, 2)
  t.equal(ids[0], ids[1])
  const run = own.runs.get(ids[0]!)!
  own.publish(run, 0, 1)
  own.finish(run)
  t.same(idsIn(await answer.text()), [0])
})

t.test('permanently lost events cut the connection and never end it cleanly', async t => {
  const cuts = await figureOf(stage.edge, 'weft_stream_cuts_total')
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  stage.publish(run, 0, 2)
  run.gone = true
  stage.publish(run, 5, 1)
  await raw.closed
  t.equal(await figureOf(stage.edge, 'weft_stream_cuts_total'), cuts + 1)
  t.notMatch(raw.text(), /\r\n0\r\n\r\n$/)
  t.same(idsIn(raw.text().replace(/\r\n[0-9a-f]*(\r\n)?/g, '')), [0, 1])
})

t.test('a broker restart is bridged: missed events are replayed', async t => {
  const own = await openStage({})
  t.teardown(() => own.close())
  const created = own.created()
  const answer = await fetch(`http://127.0.0.1:${own.port}/runs/stream`, { method: 'POST', body: '{}' })
  const run = await created
  own.publish(run, 0, 3)
  await own.graph.nc.flush()
  await new Promise(done => setTimeout(done, 50))
  own.nats.kill()
  for (let id = 3; id < 9; id++) run.kept.set(id, frame(id))
  await own.nats.restart()
  const started = performance.now()
  const text = answer.text()
  await eventually(t, () => own.replays.length > 0, 'a replay')
  t.ok(performance.now() - started < 4_000)
  await own.worker.nc.flush()
  own.finish(run)
  t.same(idsIn(await text), upTo(9))
})

t.test('without a broker a call is refused soon and is not executed later', async t => {
  const own = await openStage({})
  t.teardown(() => own.close())
  // The edge does not repeat the create of an assistant, as it does that of a thread.
  const post = () => fetch(`http://127.0.0.1:${own.port}/assistants`, { method: 'POST', body: '{}' })
  let taken = () => {}
  const inFlight = new Promise<void>(done => (taken = done))
  own.handlers['assistants.create'] = bytesHandler(() => {
    taken()
    return new Promise(() => {})
  })
  const first = post()
  await inFlight
  delete own.handlers['assistants.create']
  own.nats.kill()
  await eventually(t, () => !own.edge.connected(), 'the disconnect')
  // The promise is 1.5 s; the call itself would wait for a minute.
  const started = performance.now()
  const refused = await post()
  t.ok(performance.now() - started < 10_000)
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('retry-after'), '1')
  t.same(await refused.json(), { detail: 'The broker cannot be reached' })
  await own.nats.restart()
  const lost = await first
  t.equal(lost.status, 503, 'a call that was under way')
  t.match(await lost.json(), { detail: /lost before the answer/ })
  await own.worker.nc.flush()
  t.equal((await post()).status, 200)
  t.equal(own.calls.filter(({ verb }) => verb === 'assistants.create').length, 2, 'the refused call was not sent later')
})

t.test('an orderly stop cuts streams, so that clients resume, and reports nothing', async t => {
  const own = await openStage({})
  own.template = { on_disconnect: 'cancel' }
  const created = own.created()
  const raw = openRaw(own.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  own.publish(run, 0, 1)
  await raw.until(/\nid: 0\n/)
  await own.life.stop()
  await raw.closed
  t.notMatch(raw.text(), /\r\n0\r\n\r\n$/)
  t.same(
    own.calls.filter(call => call.verb === 'runs.disconnect'),
    [],
  )
  await own.close()
})

t.test('a stream that begins while the edge stops is cut, and no client takes it for a whole one', async t => {
  const own = await openStage({})
  t.teardown(() => own.close())
  const run = own.add({ from: 'start' })
  run.kept.set(0, frame(0))
  // It keeps the edge open.
  let answer = () => {}
  own.handlers['threads.get'] = bytesHandler(async () => {
    await new Promise<void>(done => (answer = done))
    return { body: '{}' }
  })
  const other = openRaw(own.port, request('GET', `/threads/${THREAD}`))
  await eventually(t, () => own.calls.some(call => call.verb === 'threads.get'), 'it is called')
  const client = openRaw(own.port, request('GET', '/ok'))
  await client.until(/"ok":true/)
  const stopped = own.life.stop()
  client.socket.write(request('GET', `/threads/${THREAD}/runs/${run.head.run_id}/stream`, 'Last-Event-ID: -1\r\n'))
  const text = await client.closed
  t.equal(other.text(), '', 'before the end of other answers')
  const [, head = '', body = ''] = /text\/event-stream(.*?)\r\n\r\n(.*)$/s.exec(text) ?? []
  t.match(body, /: connected/)
  t.notMatch(body, /\r\n0\r\n\r\n$/)
  t.notMatch(head, /Connection: close/i, 'behind it, fetch of Node.js takes what it has for all')
  answer()
  t.match(await other.closed, /200 OK/)
  await stopped
})
