/** Where a replay of stored events begins, and that it passes on every event that the reader lacks. */
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { after as behind, follows, openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { messagesOf } from '../../bus/publish.js'
import { headersOf } from '../../bus/ring.js'
import { ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { type RunId, token } from '../../schemas/ids.js'
import { attemptOf, blockOf, chunk, EVENTS_STREAM, firstIdOf } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

const nats = await startNats()
const log = openLog('test', 'silent')
const open = (role: Role) => openLink({ url: nats.url(role), role, log })
const [resources, graphs, edge] = [await open('resources'), await open('graphs'), await open('edge')]
const mux = openMux(edge)
t.teardown(async () => {
  mux.close()
  for (const link of [resources, graphs, edge]) await link.close()
  await nats.stop()
})
await ensureStreams(resources, readConfig({}, { max_file_store: 1024 ** 3 }))
const manager = await resources.nc.jetstreamManager()
const follower = openFollower(edge, mux)

const run = (name: string): RunId => token('run', name)
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)
let stored = 0

/** Stores `count` events from id `first` on, as a publisher stores what was sent in one turn. */
function store(run: RunId, first: number, count = 1, size = 10): void {
  const bytes = Buffer.from(
    range(first, first + count)
      .map(id => `id: ${id}\ndata: ${'x'.repeat(size)}\n\n`)
      .join(''),
  )
  for (const message of messagesOf({ first, count, bytes, attempt: attemptOf(first), v2: false })) {
    graphs.nc.publish(chunk(run, blockOf(message.first)), message.bytes, { headers: headersOf(message) })
    stored++
  }
}

/** Waits until the broker has stored everything. */
async function flush(): Promise<void> {
  while ((await manager.streams.info(EVENTS_STREAM)).state.last_seq < stored)
    await new Promise(done => setTimeout(done, 5))
}

/** Replays as a reader that has `last` and all before it; `received`: messages of the broker. */
async function replay(run: RunId, last: number, again = false) {
  const ids: number[] = []
  let sent = last
  const before = edge.nc.stats().inMsgs
  const outcome = await follower.replay(
    run,
    { pool: token('pool', 'p'), resumable: true, after: last, again },
    batch => {
      const next = behind(batch, sent)
      if (next === null || !follows(sent, next.first)) return
      for (const [, id] of Buffer.from(next.bytes)
        .toString('latin1')
        .matchAll(/^id: (\d+)$/gm))
        ids.push(Number(id))
      sent = next.first + next.count - 1
    },
  )
  return { ids, outcome, received: edge.nc.stats().inMsgs - before }
}

t.test('a replay receives what the reader lacks and few messages more', async t => {
  const [steady, uneven] = [run('steady'), run('uneven')]
  const others = range(0, 20).map(n => run(`other-${n}`))
  // The rate of both, in messages of the stream, changes: the others pause, and one run speaks in bursts.
  for (let id = 0; id < 1_000; id++) {
    store(steady, id)
    if (id % 50 === 0) store(uneven, id, 50)
    if (id < 300 || id > 700) for (const other of others) store(other, id)
  }
  await flush()
  for (const last of [0, 15, 17, 100, 299, 300, 500, 701, 950, 984, 998, 999]) {
    const { ids, outcome, received } = await replay(steady, last)
    t.equal(outcome, 'complete')
    t.same(ids, range(last + 1, 1_000), `all after ${last}`)
    // Up to 18 messages of a search, 5 that it leaves, and an end of each page: of 8 messages, then of 256.
    const most = ids.length + 18 + 5 + 1 + Math.ceil((ids.length + 5 - 8) / 256)
    t.ok(received <= most, `after ${last}: ${received} messages for ${ids.length} events`)
  }
  for (const last of [0, 49, 50, 512, 949, 998]) {
    const { ids, received } = await replay(uneven, last)
    t.same(ids, range(last + 1, 1_000), `bursts: all after ${last}`)
    t.ok(received <= 24, `bursts: ${received} messages after ${last}`)
  }
})

t.test('a reader that has everything costs a few messages', async t => {
  const { ids, outcome, received } = await replay(run('steady'), 999)
  t.same({ ids, outcome }, { ids: [], outcome: 'complete' })
  t.ok(received <= 4, `${received} messages`)
  t.equal((await replay(run('nobody'), 700)).outcome, 'empty')
})

t.test('events that were stored twice, the second time behind later ones', async t => {
  // [first, end) of what the publisher sent, in the stored order.
  const histories: { [what: string]: [number, number][] } = {
    'a message was not confirmed': [
      [0, 300],
      [301, 500],
      [300, 700],
    ],
    'the broker was killed': [
      [0, 600],
      [450, 900],
    ],
    'it lost what it had confirmed': [
      [0, 400],
      [250, 420],
      [250, 700],
    ],
    'over the end of a block': [
      [900, 1_100],
      [1_000, 1_300],
    ],
  }
  for (const [what, sent] of Object.entries(histories)) {
    const id = run(what.replaceAll(' ', '-'))
    for (const [from, to] of sent) for (let first = from; first < to; first++) store(id, first)
    await flush()
    const [begin, end] = [sent[0]![0], sent.at(-1)![1]]
    for (let last = begin; last < end; last += 13)
      t.same(await replay(id, last).then(({ ids }) => ids), range(last + 1, end), `${what}: after ${last}`)
  }
})

t.test('a stale copy behind its repetition hides no event', async t => {
  const id = run('stale')
  for (let first = 0; first < 500; first++) store(id, first)
  store(id, 100)
  await flush()
  for (const last of [98, 99, 101, 300]) t.same((await replay(id, last)).ids, range(last + 1, 500), `after ${last}`)
  // To a reader of exactly this event the copy looks like the end, until it replays again.
  t.same((await replay(id, 100, true)).ids, range(101, 500))
  for (let first = 500; first < 520; first++) store(id, first)
  await flush()
  for (const last of [98, 99, 100, 101, 300, 499, 510])
    t.same((await replay(id, last)).ids, range(last + 1, 520), `after ${last}, and it went on`)
})

t.test('late events of an earlier attempt hide none of the next one', async t => {
  const id = run('zombie')
  const second = firstIdOf(2)
  for (let first = 0; first < 100; first++) store(id, first)
  for (let first = second; first < second + 50; first++) store(id, first)
  for (let first = 100; first < 110; first++) store(id, first)
  await flush()
  for (const last of [10, 60, 99])
    t.same((await replay(id, last)).ids.slice(-50), range(second, second + 50), `after ${last}`)
  t.same((await replay(id, second + 40)).ids, range(second + 41, second + 50))
})

t.test('an event in parts is passed on whole', async t => {
  const id = run('parts')
  for (let first = 0; first < 60; first++) store(id, first, 1, first % 20 === 0 ? 600_000 : 10)
  await flush()
  for (const last of [0, 19, 20, 38, 39, 40, 41])
    t.same((await replay(id, last)).ids, range(last + 1, 60), `after ${last}`)
})

t.test('what has expired is said', async t => {
  const id = run('trimmed')
  const from = stored
  for (let first = 0; first < 600; first++) store(id, first)
  await flush()
  await manager.streams.purge(EVENTS_STREAM, { seq: from + 201 })
  for (const last of [0, 50, 198]) t.equal((await replay(id, last)).outcome, 'gone', `after ${last}`)
  for (const last of [199, 200, 230, 500]) {
    const { ids, outcome } = await replay(id, last)
    t.same({ ids, outcome }, { ids: range(last + 1, 600), outcome: 'complete' }, `after ${last}`)
  }
})
