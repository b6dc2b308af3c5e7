import t from 'tap'
import { figureOf } from '../helpers/figures.js'
import { collectGarbage } from '../helpers/garbage.js'
import { openRaw, request } from '../helpers/raw.js'
import { frame, frames, idsIn, openStage } from './stage.js'

const CHUNKS = 1_000
const STREAMS = 50

/** The memory of this process without garbage, which is much while the machine is busy. */
function residentBytes(): number {
  collectGarbage()
  return process.memoryUsage.rss()
}

t.test('50 streams of 1,000 chunks arrive whole and in order', async t => {
  const stage = await openStage({})
  t.teardown(() => stage.close())
  const url = `http://127.0.0.1:${stage.port}/runs/stream`
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, async () => {
      const created = stage.created()
      const answer = await fetch(url, { method: 'POST', body: '{}' })
      return { answer, run: await created }
    }),
  )
  // `created` returned the same run for creates of one turn, so the runs are read from the answers.
  const started = performance.now()
  for (let first = 0; first < CHUNKS; first += 20) {
    const bytes = frames(first, 20, 40)
    for (const run of stage.runs.values()) stage.publish(run, first, 20, bytes, false)
    if (first % 200 === 0) await stage.graph.nc.flush()
  }
  for (const run of stage.runs.values()) {
    run.head.last_event_id = CHUNKS - 1
    stage.finish(run)
  }
  const expected = `: connected\n${frames(0, CHUNKS, 40)}`
  const texts = await Promise.all(streams.map(({ answer }) => answer.text()))
  const ms = performance.now() - started
  t.equal(stage.runs.size, STREAMS)
  t.ok(
    texts.every(text => text === expected),
    'equal to the last byte',
  )
  t.comment(
    `${Math.round((STREAMS * CHUNKS) / ms)},000 chunks/s, publisher, broker, edge and clients on the same cores`,
  )
})

t.test('a client that pauses reading costs no memory and receives everything later', async t => {
  const stage = await openStage({})
  t.teardown(() => stage.close())
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  await raw.until(/connected/)
  raw.socket.pause()
  const count = 4_000
  const before = residentBytes()
  let most = 0
  // 64 MB, because kernel buffers hold some of them.
  const bytes = frame(0, 16_000).length
  for (let id = 0; id < count; id++) {
    const one = frame(id, 16_000)
    run.kept.set(id, Buffer.alloc(0))
    stage.publish(run, id, 1, one, false)
    if (id % 50 !== 49) continue
    await stage.graph.nc.flush()
    // The edge has received what was published.
    await stage.edge.nc.flush()
    if (id % 200 === 199) most = Math.max(most, residentBytes())
  }
  t.ok(
    most - before < 24 * 1024 * 1024,
    `${Math.round((most - before) / 1048576)} MB more for ${Math.round((count * bytes) / 1048576)} MB of events`,
  )
  run.head.last_event_id = count - 1
  // Frames are built again only now; otherwise the test itself would hold the memory that it measures.
  for (let id = 0; id < count; id++) run.kept.set(id, frame(id, 16_000))
  stage.replays.length = 0
  const started = performance.now()
  raw.socket.resume()
  stage.finish(run)
  // Searching the whole text after every piece would be quadratic.
  let tail = ''
  await new Promise<void>(done =>
    raw.socket.on('data', piece => {
      tail = (tail + piece.toString('latin1')).slice(-7)
      if (tail === '\r\n0\r\n\r\n') done()
    }),
  )
  const text = raw.text().replace(/\r\n[0-9a-f]+\r\n/g, '')
  t.same(
    idsIn(text),
    Array.from({ length: count }, (_, i) => i),
  )
  t.ok(stage.replays.length > 0)
  t.comment(`${Math.round((most - before) / 1048576)} MB`)
  t.comment(`${stage.replays.length} replays, ${Math.round(performance.now() - started)} ms`)
  raw.socket.destroy()
})

t.test('an event larger than the buffer limit arrives whole', async t => {
  const stage = await openStage({})
  t.teardown(() => stage.close())
  const created = stage.created()
  const answer = fetch(`http://127.0.0.1:${stage.port}/runs/stream`, { method: 'POST', body: '{}' })
  const run = await created
  for (let id = 0; id < 30; id++) stage.publish(run, id, 1, frame(id, 700_000))
  stage.finish(run)
  t.same(idsIn(await (await answer).text()).length, 30)
})

t.test('a client that reads nothing for the stall time is disconnected', async t => {
  const stage = await openStage({ stall_ms: 1_000 })
  t.teardown(() => stage.close())
  stage.template = { on_disconnect: 'cancel' }
  const created = stage.created()
  const raw = openRaw(stage.port, request('POST', '/runs/stream', '', '{}'))
  const run = await created
  await raw.until(/connected/)
  raw.socket.pause()
  for (let id = 0; id < 600; id++) stage.publish(run, id, 1, frame(id, 16_000), false)
  await new Promise(done => setTimeout(done, 2_500))
  t.equal(stage.calls.filter(call => call.verb === 'runs.disconnect').length, 1)
  t.equal(await figureOf(stage.edge, 'weft_edge_stalled_total'), 1)
  raw.socket.destroy()
})
