import t from 'tap'
import { eventually, frame, frames, idsIn, openRaw, openStage, request, THREAD } from './stage.js'

const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const create = (path = '/runs/stream', init: RequestInit = {}) =>
  fetch(url + path, { method: 'POST', body: '{"assistant_id":"a"}', ...init })

t.test('a created stream carries every event in order and ends behind the last one', async t => {
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
  const text = await answer.text()
  t.equal(text, `: connected\n${frames(0, 5)}`)
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
