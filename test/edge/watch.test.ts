import t from 'tap'
import { openStage } from './stage.js'

const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const create = (path = '/runs/stream', init: RequestInit = {}) =>
  fetch(url + path, { method: 'POST', body: '{"assistant_id":"a"}', ...init })
t.test('a stream whose end message was lost ends with the error of the row', async t => {
  const created = stage.created()
  const answer = await create()
  const run = await created
  stage.publish(run, 0, 2)
  Object.assign(run.head, { status: 'error', last_event_id: 2 })
  run.result = '{"__error__":{"error":"E","message":"m"}}'
  const started = performance.now()
  t.ok((await answer.text()).endsWith('id: 2\nevent: error\ndata: {"error":"E","message":"m"}\n\n'))
  t.ok(performance.now() - started < 12_000, 'found by the idle check')
})
