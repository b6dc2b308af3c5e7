import t from 'tap'
import { openMux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { openRings } from '../../bus/ring.js'
import { ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { firstIdOf } from '../../schemas/subjects.js'
import { type FakeRun, frames, idOf, idsIn, openRaw, openStage, request, THREAD } from './stage.js'

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

t.test('a slow reader of a stored stream gets everything in order', async t => {
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
