import t from 'tap'
import { openMux } from '../../../bus/mux.js'
import { openPublisher } from '../../../bus/publish.js'
import { openRings } from '../../../bus/ring.js'
import { ensureStreams } from '../../../bus/streams.js'
import { readConfig } from '../../../schemas/config.js'
import { chunks, EVENTS_STREAM, firstIdOf } from '../../../schemas/subjects.js'
import { openRaw, request } from '../../helpers/raw.js'
import { type FakeRun, frames, idOf, idsIn, openStage, THREAD } from '../stage.js'

const stage = await openStage({})
await ensureStreams(stage.worker, readConfig({}, { max_file_store: 1024 ** 3 }))
const mux = openMux(stage.graph)
t.teardown(async () => {
  mux.close()
  await stage.close()
})
const url = `http://127.0.0.1:${stage.port}`

const publisher = (run: FakeRun, attempt = 1) =>
  openPublisher(stage.graph, mux, openRings(), {
    run: idOf(run),
    attempt,
    resumable: true,
    budget: 256 * 1024 * 1024,
  })

const join = (run: FakeRun, id?: string) =>
  fetch(`${url}/threads/${THREAD}/runs/${run.head.run_id}/stream`, {
    headers: id === undefined ? {} : { 'last-event-id': id },
  })

t.test('a stored stream is resumed after any id, over attempts, and followed live', async t => {
  const run = stage.add({ resumable: true, from: 'start' })
  const second = firstIdOf(2)
  const one = publisher(run)
  for (let first = 0; first < 3_000; first += 100) one.send(first, 100, frames(first, 100))
  await one.settled(5_000)
  const two = publisher(run, 2)
  two.send(second, 10, frames(second, 10))
  await two.settled(5_000)
  const all = [...Array(3_000).keys(), ...Array.from({ length: 20 }, (_, i) => second + i)]
  const cursors = ['-1', '0', '1023', '1024', '1500', '2999', String(second + 3)]
  const answers = await Promise.all(
    cursors.map(id =>
      fetch(`${url}/threads/${THREAD}/runs/${run.head.run_id}/stream`, { headers: { 'last-event-id': id } }),
    ),
  )
  two.send(second + 10, 10, frames(second + 10, 10))
  await two.settled(5_000)
  run.head.last_event_id = second + 19
  stage.finish(run)
  for (const [i, answer] of answers.entries()) {
    const id = Number(cursors[i])
    t.same(
      idsIn(await answer.text()),
      all.filter(one => one > id),
      `after ${id}`,
    )
  }
  one.end()
  two.end()
})

t.test('joins near the end of a block cost the edge few messages, also when the run ends meanwhile', async t => {
  const run = stage.add({ resumable: true, from: 'start' })
  const out = publisher(run)
  for (let id = 0; id < 900; id++) out.send(id, 1, frames(id, 1))
  await out.settled(5_000)
  const cursors = Array.from({ length: 20 }, (_, i) => 875 + i)
  const before = stage.edge.nc.stats().inMsgs
  const answers = await Promise.all(cursors.map(id => join(run, `${id}`)))
  const received = stage.edge.nc.stats().inMsgs - before
  t.ok(received < 20 * 50, `${received} messages for 20 joins`)
  const texts = Promise.all(answers.map(answer => answer.text()))
  const late = cursors.map(id => join(run, `${id}`).then(answer => answer.text()))
  for (let id = 900; id < 950; id++) out.send(id, 1, frames(id, 1))
  run.head.last_event_id = 949
  stage.finish(run)
  await out.settled(5_000)
  for (const all of [await texts, await Promise.all(late)])
    for (const [i, text] of all.entries())
      t.same(
        idsIn(text),
        Array.from({ length: 949 - cursors[i]! }, (_, n) => cursors[i]! + 1 + n),
        `after ${cursors[i]}`,
      )
  out.end()
})

t.test('replayed events are written together', async t => {
  const run = stage.add({ resumable: true, from: 'start' })
  const out = publisher(run)
  const count = 500
  for (let id = 0; id < count; id++) out.send(id, 1, frames(id, 1))
  await out.settled(5_000)
  Object.assign(run.head, { status: 'success', last_event_id: count - 1 })
  const path = `/threads/${THREAD}/runs/${run.head.run_id}/stream`
  const raw = openRaw(stage.port, request('GET', path, 'Last-Event-ID: -1\r\n', ''))
  await raw.until(/\r\n0\r\n\r\n$/)
  const pieces = raw.text().match(/\r\n[0-9a-f]+\r\n/g)!.length
  t.ok(pieces < count / 5, `${pieces} writes of ${count} events`)
  t.same(idsIn(raw.text().replace(/\r\n[0-9a-f]+\r\n/g, '')), [...Array(count).keys()])
  raw.socket.destroy()
  out.end()
})

t.test('a slow reader of a stored stream receives everything in order', async t => {
  stage.template = { resumable: true }
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  await raw.until(/connected/)
  raw.socket.pause()
  const count = 2_000
  const out = publisher(run)
  for (let first = 0; first < count; first += 10) {
    out.send(first, 10, frames(first, 10, 16_000))
    while (out.backlog() > 100) await new Promise(done => setTimeout(done, 5))
  }
  await out.settled(5_000)
  run.head.last_event_id = count - 1
  stage.finish(run)
  // About 20 MB/s: the kernel's buffers drain more than once.
  let tail = ''
  const whole = new Promise<void>(done =>
    raw.socket.on('data', piece => {
      tail = (tail + piece.toString('latin1')).slice(-7)
      if (tail === '\r\n0\r\n\r\n') done()
      raw.socket.pause()
      setTimeout(() => raw.socket.resume(), 3)
    }),
  )
  const started = performance.now()
  raw.socket.resume()
  await whole
  t.same(idsIn(raw.text().replace(/\r\n[0-9a-f]+\r\n/g, '')), [...Array(count).keys()])
  t.comment(`32 MB in ${Math.round(performance.now() - started)} ms`)
  out.end()
  raw.socket.destroy()
})

/** Removes the stored events of the run, as an expired time to live or a broker that lost its disk does. */
const lose = async (run: FakeRun, keep = 0) => {
  const manager = await stage.worker.nc.jetstreamManager()
  await manager.streams.purge(EVENTS_STREAM, { filter: chunks(idOf(run)), ...(keep > 0 ? { keep } : {}) })
}
/** The same for the events of all runs. */
const loseAll = async () => {
  const manager = await stage.worker.nc.jetstreamManager()
  await manager.streams.purge(EVENTS_STREAM)
}
t.test('a lost stored stream is refused before it starts, in every state of its run', async t => {
  for (const status of ['running', 'success'] as const) {
    stage.template = {}
    const run = stage.add({ resumable: true, from: 'start' })
    const out = publisher(run)
    out.send(0, 101, frames(0, 101))
    await out.settled(5_000)
    if (status === 'success') Object.assign(run.head, { status, last_event_id: 100 })
    t.equal((await join(run, '10')).status, 200, `${status}: stored`)
    await lose(run)
    const answer = await join(run, '10')
    t.equal(answer.status, 409, `${status}: lost`)
    t.same(await answer.json(), { detail: 'The events after this id are no longer kept' })
    if (status === 'success') t.equal((await join(run, '-1')).status, 409, 'from the start')
    if (status === 'success') t.equal((await join(run, '100')).status, 200, 'this client has everything')
    out.end()
  }
})

t.test('a new attempt does not hide that the events of the first are lost', async t => {
  const run = stage.add({ resumable: true, from: 'start', attempt: 2 })
  const one = publisher(run)
  one.send(0, 50, frames(0, 50))
  await one.settled(5_000)
  run.head.created_at = Date.now() - 1_000
  await loseAll()
  const second = firstIdOf(2)
  const two = publisher(run, 2)
  two.send(second, 10, frames(second, 10))
  await two.settled(5_000)
  for (const id of ['-1', '10', '49']) t.equal((await join(run, id)).status, 409, `after ${id}`)
  const ok = await join(run, String(second + 3))
  t.equal(ok.status, 200)
  run.head.last_event_id = second + 9
  stage.finish(run)
  t.same(
    idsIn(await ok.text()),
    [4, 5, 6, 7, 8, 9].map(n => second + n),
  )
  one.end()
  two.end()
})

t.test('an attempt that ended before its first event is no loss', async t => {
  const other = publisher(stage.add({ resumable: true }))
  other.send(0, 1, frames(0, 1))
  await other.settled(5_000)
  // The row was read before the second attempt began.
  const run = stage.add({ resumable: true, from: 'start', created_at: Date.now() + 50 })
  const second = firstIdOf(2)
  const two = publisher(run, 2)
  two.send(second, 3, frames(second, 3))
  await two.settled(5_000)
  const answer = await join(run, '-1')
  t.equal(answer.status, 200)
  run.head.last_event_id = second + 2
  stage.finish(run)
  t.same(
    idsIn(await answer.text()),
    [0, 1, 2].map(n => second + n),
  )
  for (const out of [other, two]) out.end()
})

t.test('a join waits for the events of a run that has just ended', async t => {
  const run = stage.add({ resumable: true, from: 'start', status: 'success', last_event_id: 4, updated_at: Date.now() })
  const answer = join(run, '-1')
  await new Promise(done => setTimeout(done, 500))
  const out = publisher(run)
  out.send(0, 5, frames(0, 5))
  await out.settled(5_000)
  t.equal((await answer).status, 200)
  t.same(idsIn(await (await answer).text()), [0, 1, 2, 3, 4])
  out.end()
})

t.test('an open stream whose last events are lost is cut, never ended cleanly', async t => {
  stage.template = { resumable: true }
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  const out = publisher(run)
  out.send(0, 20, frames(0, 20))
  await out.settled(5_000)
  await raw.until(/\nid: 19\n/)
  // The run wrote 40 further events, which its broker could not store.
  run.head.last_event_id = 59
  stage.finish(run)
  const text = await raw.closed
  t.notMatch(text, /\r\n0\r\n\r\n$/)
  t.same(idsIn(text.replace(/\r\n[0-9a-f]+\r\n/g, '')).at(-1), 19)
  out.end()
})

t.test('the error of a run that never started is its only event', async t => {
  stage.template = {}
  const run = stage.add({ resumable: true, from: 'start', status: 'error', last_event_id: 0 })
  run.result = '{"__error__":{"error":"WorkerLost","message":"given up"}}'
  const answer = await join(run, '-1')
  t.equal(answer.status, 200)
  t.match(await answer.text(), /id: 0\nevent: error\ndata: {"error":"WorkerLost"/)
})

t.test('a run whose host was lost before its first event ends with its error, wherever a reader begins', async t => {
  const lost = { error: 'WorkerLost', message: 'given up' }
  const expected = /id: 0\nevent: error\ndata: {"error":"WorkerLost"/
  stage.template = { from: 'start' }
  const ended = stage.add({ status: 'error', last_event_id: 0 })
  ended.gone = true
  ended.result = JSON.stringify({ __error__: lost })
  t.match(await (await join(ended)).text(), expected, 'the run has ended')
  const running = stage.add()
  running.gone = true
  const answer = await join(running)
  running.head.last_event_id = 0
  stage.finish(running, 'error', { error: lost })
  t.match(await answer.text(), expected, 'the run ends now')
})
