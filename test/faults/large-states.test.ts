/** Large states, several at once: they arrive whole, do not hold up short runs of other graphs, and leave no memory. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { rssOf } from '../helpers/processes.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

t.setTimeout(400_000)
const MB = 1024 * 1024
const SIZE = 20 * MB
const AT_ONCE = 4
/** Resident memory of the server 20 s after the last large state; the bound leaves time to be idle. */
const KEPT_MB = 350
const IDLE_MS = 60_000

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

t.test('four states of 20 MB at once', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const server = cluster.pids().find(pid => /roles-main/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')))!
  const expected = digest('a'.repeat(SIZE))

  const burst = async () => {
    const since = performance.now()
    const threads = await Promise.all(Array.from({ length: AT_ONCE }, () => client.threads.create()))
    let ended = false
    const all = Promise.all(
      threads.map(async ({ thread_id }) => {
        const { run_id } = await client.runs.create(thread_id, 'large', { input: { size: SIZE } })
        const { a } = (await client.runs.join(thread_id, run_id)) as { a: string }
        t.equal(digest(a), expected)
      }),
    ).finally(() => (ended = true))
    const short: number[] = []
    while (!ended) {
      const at = performance.now()
      await client.runs.wait(null, 'echo', { input: { text: 'x' } })
      short.push(performance.now() - at)
      await sleep(50)
    }
    await all
    return { ms: performance.now() - since, short: short.sort((a, b) => a - b) }
  }

  // The first burst shows which graph has large states; from then on it shares no host with others.
  await burst()
  const { ms, short } = await burst()
  const p95 = short[Math.floor(short.length * 0.95)]!
  t.comment(`${short.length} short runs beside ${Math.round(ms)} ms of large ones: p95 ${Math.round(p95)} ms`)
  t.ok(short.length >= 2 * AT_ONCE, `${short.length} short runs ended meanwhile`)
  t.ok(p95 < ms / 4, 'a short run waits for a large state or two, not for all of them')

  await until(() => rssOf(server) <= KEPT_MB, IDLE_MS).catch(() => {})
  t.ok(rssOf(server) <= KEPT_MB, `${Math.round(rssOf(server))} MB are kept`)
})
