import t from 'tap'
import { bytesHandler } from '../../../bus/serve.js'
import { openRaw, request } from '../../helpers/raw.js'
import { eventually, frame, idsIn, openStage, THREAD } from '../stage.js'

const stage = await openStage({ heartbeat_ms: 500 })
t.teardown(() => stage.close())
const url = `http://127.0.0.1:${stage.port}`
const join = (run: { head: { run_id: string } }, id?: string, query = '') =>
  fetch(
    `${url}/threads/${THREAD}/runs/${run.head.run_id}/stream${query}`,
    id === undefined ? {} : { headers: { 'last-event-id': id } },
  )
const disconnects = () => stage.calls.filter(call => call.verb === 'runs.disconnect')
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('joins: every form of Last-Event-ID', async t => {
  const run = stage.add({ from: 'start' })
  for (let id = 0; id < 10; id++) run.kept.set(id, frame(id))
  const ended = stage.add({ from: 'live' })
  for (let id = 0; id < 10; id++) ended.kept.set(id, frame(id))
  stage.finish(ended)
  const ids = async (of: typeof run, id?: string, query?: string) => idsIn(await (await join(of, id, query)).text())
  t.same(await ids(ended, '-1'), upTo(10))
  t.same(await ids(ended, '-'), upTo(10))
  t.same(await ids(ended, '3'), [4, 5, 6, 7, 8, 9])
  t.same(await ids(ended, undefined, '?last_event_id=7'), [8, 9])
  t.same(await ids(ended, '8'), [9])
  t.same(await ids(ended, '9'), [])
  t.same(await ids(ended, '999'), [])
  t.same(await ids(ended), [], 'live: nothing comes any more')
  t.same(await ids(ended, 'abc'), [])
  t.same(await ids(ended, '1718000000000-0'), [])
  const answers = [join(run), join(run, '-1'), join(run, '5'), join(run, 'abc'), join(run, '500')]
  const texts = Promise.all(answers.map(async one => idsIn(await (await one).text())))
  const heads = await Promise.all(answers)
  t.same(
    heads.map(one => one.status),
    [200, 200, 200, 200, 200],
  )
  await new Promise(done => setTimeout(done, 100))
  stage.publish(run, 10, 2)
  stage.finish(run)
  t.same(await texts, [upTo(12), upTo(12), [6, 7, 8, 9, 10, 11], upTo(12), upTo(12)])
})

t.test('a live join starts with the next event', async t => {
  const run = stage.add({ from: 'live' })
  for (let id = 0; id < 4; id++) run.kept.set(id, frame(id))
  const answer = await join(run)
  t.equal(answer.headers.get('content-location'), `/threads/${THREAD}/runs/${run.head.run_id}`)
  // "Now" is the time at which the subscription has reached the broker, over another connection than the worker's.
  await new Promise(done => setTimeout(done, 100))
  stage.publish(run, 4, 1)
  stage.publish(run, 6, 1)
  run.kept.set(5, frame(5))
  stage.finish(run)
  t.same(idsIn(await answer.text()), [4, 5, 6])
})

t.test('a live join that lost its connection before the first event misses none', async t => {
  const [more, ended] = [stage.add({ from: 'live' }), stage.add({ from: 'live' })]
  const answers = await Promise.all([join(more), join(ended)])
  const { nc } = stage.edge
  const connected = (async () => {
    for await (const { type } of nc.status()) if (type === 'reconnect') return
  })()
  await nc.reconnect()
  await connected
  for (const run of [more, ended]) for (let id = 0; id < 3; id++) run.kept.set(id, frame(id))
  // Readers learn of it one after the other.
  await new Promise(done => setTimeout(done, 1_500))
  stage.publish(more, 3, 1)
  stage.finish(more)
  stage.finish(ended)
  t.same(idsIn(await answers[0].text()), [0, 1, 2, 3])
  t.same(idsIn(await answers[1].text()), [0, 1, 2], 'although no event came after it')
})

t.test('a join of a pending run receives all events from the start', async t => {
  const run = stage.add({ from: 'start', status: 'pending' })
  run.gone = true
  for (const id of [undefined, '-1']) {
    const answer = await join(run, id)
    t.equal(answer.status, 200)
    void answer.body?.cancel()
  }
  const answer = await join(run)
  run.gone = false
  stage.publish(run, 0, 2)
  stage.finish(run)
  t.same(idsIn(await answer.text()), [0, 1])
})

t.test('a join from the start of a run whose supervisor has not received it yet waits for it', async t => {
  const run = stage.add({ from: 'start' })
  run.gone = true
  const answer = join(run, '-1')
  await new Promise(done => setTimeout(done, 500))
  run.gone = false
  stage.publish(run, 0, 2)
  stage.finish(run)
  t.equal((await answer).status, 200)
  t.same(idsIn(await (await answer).text()), [0, 1])
})

t.test('a join of removed events is 409 before the stream starts', async t => {
  const run = stage.add({ from: 'live' })
  run.gone = true
  for (const id of ['-1', '3']) {
    const answer = await join(run, id)
    t.equal(answer.status, 409, id)
    t.match(((await answer.json()) as { detail: string }).detail, /no longer kept/)
  }
  run.gone = false
  for (let id = 5; id < 8; id++) run.kept.set(id, frame(id))
  t.equal((await join(run, '2')).status, 409, 'a hole behind the id')
})

t.test('a join of an unknown run is 404', async t => {
  t.equal((await join({ head: { run_id: THREAD } })).status, 404)
})

t.test('the stream ends although the run ends between the join and its subscription', async t => {
  const run = stage.add({ from: 'live' })
  stage.handlers['runs.join'] = bytesHandler(() => {
    const head = { ...run.head }
    run.kept.set(0, frame(0))
    stage.finish(run)
    return { head: { run: head } }
  })
  const started = performance.now()
  t.same(idsIn(await (await join(run)).text()), [])
  t.same(idsIn(await (await join(run, '-1')).text()), [0])
  delete stage.handlers['runs.join']
  t.ok(performance.now() - started < 2_000, 'at once')
})

t.test('a join may request fewer modes', async t => {
  const run = stage.add({ from: 'start', stream_mode: ['values', 'updates'] })
  ;['metadata', 'values', 'updates', 'values|sub:1', 'error'].forEach((name, i) => {
    run.kept.set(i, frame(i, 0, name))
  })
  stage.finish(run)
  t.same(idsIn(await (await join(run, '-1', '?stream_mode=updates')).text()), [0, 2, 4])
  t.same(idsIn(await (await join(run, '-1', `?stream_mode=${encodeURIComponent('["values"]')}`)).text()), [0, 1, 3, 4])
  t.same(idsIn(await (await join(run, '-1', '?stream_mode=')).text()), upTo(5))
})

t.test('disconnecting a join has an effect only with cancel_on_disconnect', async t => {
  for (const [query, expected] of [
    ['', 0],
    ['?cancel_on_disconnect=0', 0],
    ['?cancel_on_disconnect=true', 1],
  ] as const) {
    const before = disconnects().length
    const run = stage.add({ from: 'live', on_disconnect: 'cancel' })
    const raw = openRaw(stage.port, request('GET', `/threads/${THREAD}/runs/${run.head.run_id}/stream${query}`))
    await raw.until(/connected/)
    raw.socket.destroy()
    if (expected > 0) await eventually(t, () => disconnects().length > before, 'a disconnect')
    await new Promise(done => setTimeout(done, 150))
    t.equal(disconnects().length - before, expected, query)
  }
})
