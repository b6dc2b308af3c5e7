import { cpSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { announceEnd, readSignal } from '../../bus/events.js'
import { after, type Batch, type Ending, follows, offsetAfter, openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { messagesOf, openPublisher } from '../../bus/publish.js'
import { type Job, pull, wake } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import { ensureConsumer, ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { type RunId, token } from '../../schemas/ids.js'
import { control, firstIdOf } from '../../schemas/subjects.js'
import { figureOf } from '../helpers/figures.js'
import { startNats } from '../helpers/nats.js'
import { halt } from '../helpers/processes.js'

const POOL = token<'pool'>('pool', 'default')

const run = (name: string): RunId => token('run', name)
const event = (id: number, size = 10) => `id: ${id}\nevent: custom\ndata: "${'x'.repeat(size)}"\n\n`
const events = (first: number, count: number, size?: number) =>
  Buffer.from(Array.from({ length: count }, (_, i) => event(first + i, size)).join(''))
const ids = (batches: Batch[]) =>
  batches.flatMap(({ bytes }) =>
    [
      ...Buffer.from(bytes)
        .toString()
        .matchAll(/^id: (\d+)$/gm),
    ].map(match => Number(match[1])),
  )
const until = async (done: () => boolean, ms = 5_000) => {
  const end = performance.now() + ms
  while (!done()) {
    if (performance.now() > end) throw new Error('waited in vain')
    await new Promise(next => setTimeout(next, 5))
  }
}
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

t.test('cutting batches by id', async t => {
  const batch = { first: 5, count: 4, bytes: events(5, 4), v2: false }
  t.equal(after(batch, 4), batch)
  t.equal(after(batch, 8), null)
  t.same(ids([after(batch, 6)!]), [7, 8])
  t.equal(offsetAfter(batch.bytes, 4), batch.bytes.length)
  t.ok(follows(-1, 0) && follows(3, 4) && follows(17, firstIdOf(2)) && follows(firstIdOf(2), firstIdOf(3)))
  t.notOk(follows(3, 5) || follows(-1, 1) || follows(17, firstIdOf(2) + 1))
})

t.test('messages keep to blocks and sizes', async t => {
  const parts = [...messagesOf({ first: 1000, count: 100, bytes: events(1000, 100), attempt: 1, v2: false })]
  t.same(
    parts.map(({ first, count }) => [first, count]),
    [
      [1000, 24],
      [1024, 76],
    ],
  )
  const big = [...messagesOf({ first: 7, count: 1, bytes: events(7, 1, 600_000), attempt: 1, v2: false })]
  t.same(
    big.map(({ part }) => part),
    ['0/3', '1/3', '2/3'],
  )
  const mixed = [...messagesOf({ first: 0, count: 3, bytes: events(0, 3, 200_000), attempt: 1, v2: false })]
  t.ok(mixed.every(({ bytes }) => bytes.length <= 256 * 1024))
  t.same(ids(mixed), [0, 1, 2])
})

t.test('on a server', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const log = openLog('test', 'silent')
  const config = readConfig({}, { max_file_store: 1024 ** 3 })
  const links: Link[] = []
  const link = async (role: 'edge' | 'resources' | 'graphs') => {
    const one = await openLink({ url: nats.url(role), role, log })
    links.push(one)
    return one
  }
  const [edge, resources, graphs] = [await link('edge'), await link('resources'), await link('graphs')]
  t.teardown(() => Promise.all(links.map(one => one.close())))
  await ensureStreams(resources, config)
  await ensureStreams(resources, config)
  const mux = openMux(graphs)
  const edgeMux = openMux(edge)
  const resourceMux = openMux(resources)
  t.teardown(() => {
    for (const one of [mux, edgeMux, resourceMux]) one.close()
  })
  const rings = openRings()
  const follower = openFollower(edge, edgeMux)
  const serveRing = (id: RunId) =>
    graphs.subscribe(control(POOL, id), message => {
      const signal = readSignal(message.data)
      if (signal?.do === 'replay') rings.answer(id, signal.after, message)
    })

  for (const resumable of [true, false]) {
    await t.test(resumable ? 'a stored stream, live and replayed' : 'a ring, live and replayed', async t => {
      const id = run(`r${resumable}`)
      const live: Batch[] = []
      const stop = follower.follow(id, { onBatch: batch => live.push(batch) })
      await edge.nc.flush()
      const publisher = openPublisher(graphs, mux, rings, { run: id, attempt: 1, resumable, budget: 1e9 })
      if (!resumable) serveRing(id)
      await graphs.nc.flush()
      for (let first = 0; first < 3_000; first += 30) publisher.send(first, 30, events(first, 30))
      publisher.send(3_000, 1, events(3_000, 1, 300_000))
      publisher.send(3_001, 1, events(3_001, 1))
      await publisher.settled(5_000)
      await until(() => ids(live).at(-1) === 3_001)
      t.same(ids(live), range(0, 3_002), 'live is complete and in order')
      const confirmed = await figureOf(graphs, 'weft_publish_seconds')
      t.ok(confirmed > 100, 'each message of stored events was confirmed, none of a ring is')
      for (const from of [-1, 0, 5, 1_022, 1_023, 1_024, 2_999, 3_000, 3_001]) {
        const again: Batch[] = []
        t.equal(
          await follower.replay(id, { pool: POOL, resumable, after: from }, batch => again.push(batch)),
          'complete',
        )
        const got = ids(again.map(batch => after(batch, from)).filter(batch => batch !== null))
        t.same(got, range(from + 1, 3_002), `after ${from}`)
      }
      t.equal(
        await follower.replay(run('nobody'), { pool: POOL, resumable, after: 3 }, () => {}),
        resumable ? 'empty' : 'gone',
      )
      stop()
    })
  }

  await t.test('a second attempt follows the first in the stored stream', async t => {
    const id = run('retried')
    for (const [attempt, count] of [
      [1, 5],
      [2, 3],
    ] as const) {
      const publisher = openPublisher(graphs, mux, rings, { run: id, attempt, resumable: true, budget: 1e9 })
      publisher.send(firstIdOf(attempt), count, events(firstIdOf(attempt), count))
      await publisher.settled(5_000)
    }
    const seen: Batch[] = []
    await follower.replay(id, { pool: POOL, resumable: true, after: 2 }, batch => seen.push(batch))
    t.same(ids(seen.map(batch => after(batch, 2)!)), [3, 4, ...range(firstIdOf(2), firstIdOf(2) + 3)])
  })

  await t.test('a ring keeps its events, not what they were read with', async t => {
    const id = run('lean1')
    const read = Buffer.concat([events(0, 2), Buffer.alloc(64_000)])
    rings.push(id, {
      first: 0,
      count: 2,
      attempt: 1,
      part: null,
      v2: false,
      bytes: read.subarray(0, events(0, 2).length),
    })
    // Bytes that share the memory of the read would change with it.
    read.fill(0)
    serveRing(id)
    await graphs.nc.flush()
    const kept: Batch[] = []
    await follower.replay(id, { pool: POOL, resumable: false, after: -1 }, batch => kept.push(batch))
    t.same(ids(kept), [0, 1])
  })

  await t.test('who waits for the end only is not sent the events; who comes later to read is', async t => {
    const id = run('quiet1')
    // A dedicated connection: it receives nothing else.
    const quiet = await openLink({ url: nats.url('edge'), role: 'edge', log: edge.log })
    const quietMux = openMux(quiet)
    const follower = openFollower(quiet, quietMux)
    const publisher = openPublisher(graphs, mux, rings, { run: id, attempt: 1, resumable: false, budget: 1e9 })
    const ended: Ending[] = []
    const stop = follower.follow(id, { onEnd: ending => ended.push(ending) })
    await quiet.nc.flush()
    const before = quiet.nc.stats().inMsgs
    publisher.send(0, 1, events(0, 1))
    publisher.send(1, 1, events(1, 1))
    await graphs.nc.flush()
    await quiet.nc.flush()
    t.equal(quiet.nc.stats().inMsgs, before)

    const live: Batch[] = []
    const stopReading = follower.follow(id, { onBatch: batch => live.push(batch) })
    await quiet.nc.flush()
    publisher.send(2, 1, events(2, 1))
    announceEnd(resources, id, { status: 'success', last_event_id: 2, result: null, error: null })
    await until(() => live.length === 1 && ended.length === 1)
    t.same(ids(live), [2])
    stop()
    stopReading()
    quietMux.close()
    await quiet.close()
  })

  await t.test('what fell out of a ring is said', async t => {
    const id = run('long')
    serveRing(id)
    const publisher = openPublisher(graphs, mux, rings, { run: id, attempt: 1, resumable: false, budget: 1e9 })
    for (let first = 0; first < 100; first++) publisher.send(first, 1, events(first, 1, 50_000))
    await graphs.nc.flush()
    t.equal(await follower.replay(id, { pool: POOL, resumable: false, after: 3 }, () => {}), 'gone')
    const seen: Batch[] = []
    t.equal(
      await follower.replay(id, { pool: POOL, resumable: false, after: 90 }, batch => seen.push(batch)),
      'complete',
    )
    t.same(ids(seen), range(91, 100))
    t.ok(rings.bytes() <= 3 * 1024 * 1024)
  })

  await t.test('rings of ended runs make room for those of others', async t => {
    const rings = openRings()
    const ended = Array.from({ length: 40 }, (_, n) => run(`ended${n}`))
    const fill = (id: RunId, first = 0) =>
      rings.push(id, { first, count: 1, attempt: 1, part: null, v2: false, bytes: events(first, 1, 900_000) })
    const running = run('goes-on')
    fill(running)
    for (const id of ended) {
      rings.open(id)
      fill(id)
      rings.ended(id)
    }
    t.ok(rings.bytes() < 18 * 1024 * 1024, `${rings.bytes()} bytes`)
    t.same([rings.has(running), rings.has(ended[0]!), rings.has(ended[39]!)], [true, false, true])
    rings.open(ended[39]!)
    for (const id of ended.slice(0, 30)) {
      rings.open(id)
      fill(id)
    }
    t.ok(rings.bytes() > 27 * 1024 * 1024, 'runs that go on have more room')
    for (const id of ended) rings.drop(id)
    rings.drop(running)
    t.equal(rings.bytes(), 0)
  })

  await t.test('beyond its budget a run streams on, and says what is kept', async t => {
    const id = run('budget')
    const live: Batch[] = []
    follower.follow(id, { onBatch: batch => live.push(batch) })
    await edge.nc.flush()
    serveRing(id)
    const spent: number[] = []
    const options = { run: id, attempt: 1, resumable: true, budget: 1_000, onSpent: (id: number) => spent.push(id) }
    const publisher = openPublisher(graphs, mux, rings, options)
    for (let first = 0; first < 100; first++) publisher.send(first, 1, events(first, 1, 30))
    await publisher.settled(5_000)
    await until(() => ids(live).length === 100)
    t.equal(spent.length, 1)
    const [end] = spent as [number]
    t.ok(end > 5 && end < 50)
    const replay = async (after: number) => {
      const seen: Batch[] = []
      const outcome = await follower.replay(id, { pool: POOL, resumable: true, after, until: end }, batch =>
        seen.push(batch),
      )
      return { outcome, seen: ids(seen).filter(id => id > after) }
    }
    t.same(await replay(-1), { outcome: 'complete', seen: range(0, 100) }, 'both parts, while the second is kept')
    t.same(await replay(end), { outcome: 'complete', seen: range(end + 1, 100) })
    rings.drop(id)
    t.same(await replay(2), { outcome: 'gone', seen: [] }, 'nothing is handed over that cannot be finished')
  })

  await t.test('the terminal event', async t => {
    const endings: Ending[] = []
    follower.follow(run('end1'), { onEnd: ending => endings.push(ending) })
    await edge.nc.flush()
    announceEnd(resources, run('end1'), {
      status: 'success',
      last_event_id: 7,
      result: Buffer.from('{"a":1}'),
      error: null,
    })
    announceEnd(resources, run('end1'), {
      status: 'error',
      last_event_id: 8,
      result: Buffer.alloc(300_000),
      error: { error: 'X', message: 'é\n' },
    })
    await until(() => endings.length === 2)
    t.match(endings[0], { status: 'success', last_event_id: 7, error: null })
    t.equal(Buffer.from(endings[0]!.result!).toString(), '{"a":1}')
    t.match(endings[1], { status: 'error', last_event_id: 8, result: null, error: { error: 'X', message: 'é\n' } })
  })

  await t.test('the work queue gives exactly what was asked for', async t => {
    const pool = token<'pool'>('pool', 'default')
    await ensureConsumer(resources, pool)
    await ensureConsumer(resources, pool)
    const jobs: Job[] = []
    let free = 3
    const puller = pull(
      graphs,
      mux,
      pool,
      () => free,
      job => {
        free--
        jobs.push(job)
      },
    )
    puller.fill()
    for (let i = 0; i < 10; i++)
      t.equal(await wake(resources, resourceMux, pool, { run_id: `run-${i}`, thread_id: 't' }, `id-${i}`), true)
    await until(() => jobs.length === 3)
    await new Promise(done => setTimeout(done, 200))
    t.equal(jobs.length, 3, 'not one more than there are slots')
    for (const job of jobs.splice(0, 2)) {
      t.equal(await job.done(), true)
      free++
    }
    jobs.splice(0, 1)[0]!.back()
    free++
    puller.fill()
    await until(() => jobs.length === 3)
    free += 10
    puller.fill()
    await until(() => jobs.length === 8)
    t.equal(new Set(jobs.map(job => job.run_id)).size, 8, 'what was given back came again, nothing was lost')
    puller.quiet()
    for (const job of jobs) t.equal(await job.done(), true)
  })

  await t.test('each job says how many wait behind it', async t => {
    const pool = token<'pool'>('pool', 'default')
    for (let i = 0; i < 10; i++)
      await wake(resources, resourceMux, pool, { run_id: `run-${i}`, thread_id: 't' }, `w-${i}`)
    const jobs: Job[] = []
    let slots = 4
    let behind = 0
    const free = (waiting: number) => {
      behind = waiting
      return slots - jobs.length
    }
    const puller = pull(graphs, mux, pool, free, job => void jobs.push(job))
    puller.fill()
    await until(() => jobs.length === 4 && behind === 6)
    slots = 14
    puller.fill()
    await until(() => jobs.length === 10 && behind === 0)
    puller.quiet()
    for (const job of jobs) t.equal(await job.done(), true)
  })

  await t.test('a broker that stops costs one copy of the unconfirmed events', async t => {
    const id = run('stopped')
    const rings = openRings()
    const options = { run: id, attempt: 1, resumable: true, budget: 1e9 }
    const publisher = openPublisher(graphs, mux, rings, options)
    const other = openPublisher(graphs, mux, rings, { ...options, run: run('stopped2') })
    t.notOk(publisher.isCongested())
    await halt(nats.pid()!)
    const before = graphs.nc.stats().outBytes
    const size = 200_000
    for (let first = 0; first < 100; first++) publisher.send(first, 1, events(first, 1, size))
    t.ok(publisher.isCongested(), 'the sender is held back by bytes')
    t.notOk(other.isCongested(), 'a run that sends little is not')
    let relieved = false
    void publisher.relieved(60_000).then(() => {
      relieved = true
    })
    // Several times the wait for a confirmation, after each of which everything was sent again.
    await new Promise(done => setTimeout(done, 5_000))
    for (let first = 100; first < 120; first++) publisher.send(first, 1, events(first, 1, size))
    await new Promise(done => setTimeout(done, 4_000))
    const sent = graphs.nc.stats().outBytes - before
    t.ok((await figureOf(graphs, 'weft_publish_repeats_total')) >= 1, 'the metrics show it')
    process.kill(nats.pid()!, 'SIGCONT')
    t.ok(sent < 6 * 1024 * 1024, `${sent} bytes were sent to a broker that took none`)
    t.notOk(relieved, 'the sender waits')
    await publisher.settled(30_000)
    t.ok(relieved, 'and goes on')
    t.notOk(rings.window.isFull())
    t.equal(publisher.backlog(), 0)
    t.equal(rings.waiting.bytes, 0)
    t.notOk(publisher.isCongested())
    const seen: Batch[] = []
    await follower.replay(id, { pool: POOL, resumable: true, after: -1 }, batch => seen.push(batch))
    t.same([...new Set(ids(seen))], range(0, 120), 'nothing is missing')
  })

  await t.test('of all runs together, those with more than their part are held back', async t => {
    const rings = openRings()
    const all = Array.from({ length: 30 }, (_, n) => {
      const options = { run: run(`part${n}`), attempt: 1, resumable: true, budget: 1e9 }
      return openPublisher(graphs, mux, rings, options)
    })
    const [small, ...large] = all
    await halt(nats.pid()!)
    small!.send(0, 1, events(0, 1, 1_000))
    for (let first = 0; first < 12; first++)
      for (const publisher of large) publisher.send(first, 1, events(first, 1, 200_000))
    t.ok(rings.waiting.bytes > 64 * 1024 * 1024, `${rings.waiting.bytes} bytes wait`)
    t.equal(rings.waiting.runs, 30)
    t.ok(large.every(publisher => publisher.isCongested()))
    t.notOk(small!.isCongested(), 'a run that sends little is not')
    process.kill(nats.pid()!, 'SIGCONT')
    await Promise.all(all.map(publisher => publisher.settled(30_000)))
    t.same(rings.waiting, { bytes: 0, runs: 0 })
    t.notOk(large.some(publisher => publisher.isCongested()))
  })

  await t.test('after the server was killed everything continues', async t => {
    const id = run('killed')
    const publisher = openPublisher(graphs, mux, rings, { run: id, attempt: 1, resumable: true, budget: 1e9 })
    publisher.send(0, 10, events(0, 10))
    await publisher.settled(5_000)
    nats.kill()
    publisher.send(10, 10, events(10, 10))
    await nats.restart()
    await until(() => graphs.connected() && edge.connected(), 10_000)
    await publisher.settled(15_000)
    t.equal(publisher.backlog(), 0)
    t.same(await storedIds(id), range(0, 20))
  })

  await t.test('what the disk of the server did not get before a power failure is stored again', async t => {
    const id = run('power')
    const [files, disk] = [join(nats.data, 'nats'), join(nats.data, 'disk')]
    const publisher = openPublisher(graphs, mux, rings, { run: id, attempt: 1, resumable: true, budget: 1e9 })
    publisher.send(0, 10, events(0, 10))
    await publisher.settled(5_000)
    nats.kill()
    await until(() => nats.pid() === null)
    cpSync(files, disk, { recursive: true })
    await nats.restart()
    await until(() => graphs.connected() && edge.connected(), 10_000)
    publisher.send(10, 10, events(10, 10))
    await publisher.settled(15_000)
    t.equal(publisher.backlog(), 0, 'the server has confirmed them')
    nats.kill()
    await until(() => nats.pid() === null)
    rmSync(files, { recursive: true })
    renameSync(disk, files)
    await nats.restart()
    await until(() => graphs.connected() && edge.connected(), 10_000)
    await publisher.settled(15_000)
    t.same(await storedIds(id), range(0, 20))
  })

  /** The ids of the events in the stored stream, each once. */
  async function storedIds(id: RunId): Promise<number[]> {
    const seen: Batch[] = []
    await follower.replay(id, { pool: POOL, resumable: true, after: -1 }, batch => seen.push(batch))
    let last = -1
    return ids(
      seen
        .map(batch => {
          const rest = after(batch, last)
          if (rest) last = rest.first + rest.count - 1
          return rest
        })
        .filter(batch => batch !== null),
    )
  }
})
