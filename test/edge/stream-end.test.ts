import t from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import { eventually, frame, idsIn, openRaw, openStage, request } from './stage.js'

const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const create = (path = '/runs/stream', init: RequestInit = {}) =>
  fetch(url + path, { method: 'POST', body: '{"assistant_id":"a"}', ...init })
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('a create that nobody answers is repeated with the same run id', async t => {
  const ids: string[] = []
  const refuse = stage.handlers
  refuse['runs.create'] = bytesHandler(async (_, { head }) => {
    ids.push(head.run!.run_id)
    if (ids.length === 1) await new Promise(done => setTimeout(done, 5_500))
    const run = stage.runs.get(head.run!.run_id) ?? stage.add({ run_id: head.run!.run_id, stateless: true })
    return { head: { run: run.head } }
  })
  const answer = await create()
  delete refuse['runs.create']
  t.equal(answer.status, 200)
  t.equal(ids.length, 2)
  t.equal(ids[0], ids[1])
  const run = stage.runs.get(ids[0]!)!
  stage.publish(run, 0, 1)
  stage.finish(run)
  t.same(idsIn(await answer.text()), [0])
})

t.test('events that are gone for good cut the connection, never end it cleanly', async t => {
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  stage.publish(run, 0, 2)
  run.gone = true
  stage.publish(run, 5, 1)
  await raw.closed
  t.notMatch(raw.text(), /\r\n0\r\n\r\n$/)
  t.same(idsIn(raw.text().replace(/\r\n[0-9a-f]*(\r\n)?/g, '')), [0, 1])
})

t.test('a broker restart is bridged: what was missed is replayed', async t => {
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
