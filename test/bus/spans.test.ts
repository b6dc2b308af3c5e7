/** The recorded parts of runs at the broker: stored without a confirmation, read in order over pages, removed with their thread. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { ensureStreams, publishSpans, purgeSpans, type RunPlace, readSpans } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { startNats } from '../helpers/nats.js'

const nats = await startNats()
const log = openLog('test', 'silent')
const open = (role: Role) => openLink({ url: nats.url(role), role, log })
const [resources, graphs] = [await open('resources'), await open('graphs')]
const mux = openMux(resources)
t.teardown(async () => {
  mux.close()
  for (const link of [resources, graphs]) await link.close()
  await nats.stop()
})
await ensureStreams(resources, readConfig({}, { max_file_store: 1024 ** 3 }))

const place = (thread: string, run: string): RunPlace => ({ thread: token('thread', thread), run: token('run', run) })
const text = (batch: Uint8Array) => Buffer.from(batch).toString()

/** The batches of a run, as soon as there are so many. */
async function read(run: RunPlace, count: number): Promise<Uint8Array[]> {
  for (;;) {
    const found = await readSpans(mux, run)
    if (found.length >= count) return found
  }
}

t.test('a run has its batches in order, also over several pages, and no others', async t => {
  const run = place('t1', 'long')
  publishSpans(graphs, place('t1', 'other'), Buffer.from('other'))
  for (let n = 0; n < 1_200; n++) publishSpans(graphs, run, Buffer.from(`${n}`))
  t.same(
    (await read(run, 1_200)).map(text),
    Array.from({ length: 1_200 }, (_, n) => `${n}`),
  )
  const large = place('t1', 'large')
  const batches = Array.from({ length: 6 }, () => randomBytes(900_000))
  for (const batch of batches) publishSpans(graphs, large, batch)
  const found = await read(large, 6)
  t.ok(
    batches.every((batch, n) => batch.equals(found[n]!)),
    'more bytes than a page has',
  )
  t.same(await readSpans(mux, place('t1', 'unknown')), [])
})

t.test('the batches of a run are removed, and those of all runs of a thread', async t => {
  const [one, two, kept] = [place('t2', 'one'), place('t2', 'two'), place('t3', 'kept')]
  for (const each of [one, two, kept]) publishSpans(graphs, each, Buffer.from('batch'))
  for (const each of [one, two, kept]) await read(each, 1)
  await purgeSpans(resources, mux, one.thread, one.run)
  t.same(await readSpans(mux, one), [])
  t.equal((await readSpans(mux, two)).length, 1)
  await purgeSpans(resources, mux, two.thread)
  t.same(await readSpans(mux, two), [])
  t.equal((await readSpans(mux, kept)).length, 1)
})
