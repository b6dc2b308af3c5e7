/** Work queues of a cluster of brokers, whose servers learn at different moments that a worker receives no more. */
import t from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { pull, wake } from '../../bus/queue.js'
import { ensureConsumer, ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { startNatsCluster } from '../helpers/nats-cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

const POOL = token<'pool'>('pool', 'default')
const log = openLog('test', 'error', 'json')
/** Workers that leave, one after the other. */
const ROUNDS = 12
const CALLERS = 8
/** Shorter than the 15 s after which the broker repeats a job that nobody has confirmed. */
const SOON_MS = 12_000

t.test('workers that leave a busy queue take no job along', async t => {
  const nats = await startNatsCluster(3)
  t.teardown(() => nats.stop())
  const links: Link[] = []
  t.teardown(() => Promise.all(links.map(link => link.close())))
  /** A connection to one of the servers. */
  const open = async (role: 'graphs' | 'resources', server: number) => {
    const link = await openLink({ url: nats.url(role).split(',')[server % 3]!, role, log })
    links.push(link)
    return { link, mux: openMux(link) }
  }
  const resources = await open('resources', 0)
  await ensureStreams(resources.link, readConfig({ WEFT_NATS_REPLICAS: '3' }))
  await ensureConsumer(resources.link, POOL)

  const done = new Set<string>()
  const work = ({ link, mux }: Awaited<ReturnType<typeof open>>) => {
    const puller = pull(
      link,
      mux,
      POOL,
      () => 32,
      job => void job.done().then(isDone => isDone && done.add(job.run_id)),
    )
    puller.fill()
    return puller
  }
  const staying = work(await open('graphs', 0))

  let made = 0
  let isOver = false
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      const run_id = `run-${made++}`
      await wake(resources.link, resources.mux, POOL, { run_id, thread_id: 't' }, run_id)
    }
  })
  for (let n = 0; n < ROUNDS; n++) {
    const leaving = await open('graphs', n)
    const puller = work(leaving)
    await until(() => puller.counts().jobs > 20)
    puller.quiet()
    await until(() => puller.ended())
    await leaving.link.close()
  }
  isOver = true
  await Promise.all(callers)
  await until(() => done.size === made, SOON_MS).catch(() => {})
  t.equal(done.size, made, 'every job was done')
  staying.quiet()
})
