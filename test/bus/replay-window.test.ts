/** The messages of the broker for a replay whose reader stops. */
import { headers } from 'nats'
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { blockOf, chunk } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

const RUN = token<'run'>('run', 'large')
const MB = 1024 * 1024
const EVENT = 200_000
const COUNT = 120

t.test('a replay is read in windows of a megabyte', async t => {
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
  for (let id = 0; id < COUNT; id++) {
    const head = headers()
    head.set('first', `${id}`)
    head.set('count', '1')
    graphs.nc.publish(chunk(RUN, blockOf(id)), Buffer.alloc(EVENT, `${id % 10}`), { headers: head })
  }
  await graphs.nc.flush()
  const { streams } = await resources.nc.jetstreamManager()
  while ((await streams.info('EVENTS')).state.messages < COUNT) await new Promise(done => setTimeout(done, 20))

  const follower = openFollower(edge, mux)
  const stop = new Error('the client stopped reading')
  const before = edge.nc.stats().inBytes
  await t.rejects(
    follower.replay(RUN, { pool: token('pool', 'p'), resumable: true, after: -1 }, () => {
      throw stop
    }),
    stop,
  )
  await edge.nc.flush()
  const sent = edge.nc.stats().inBytes - before
  t.ok(sent < 3 * MB, `${Math.round(sent / MB)} of ${Math.round((EVENT * COUNT) / MB)} MB were sent`)

  for (const after of [-1, 0, 57]) {
    const ids: number[] = []
    const outcome = await follower.replay(
      RUN,
      { pool: token('pool', 'p'), resumable: true, after },
      ({ first, bytes }) => {
        if (first > after) ids.push(first)
        if (bytes.length !== EVENT) t.fail('an event is not whole')
      },
    )
    t.equal(outcome, 'complete')
    t.same(
      ids,
      Array.from({ length: COUNT - after - 1 }, (_, i) => after + 1 + i),
      `every event after ${after}`,
    )
  }
})
