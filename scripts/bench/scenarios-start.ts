/** The start of a server, and its usage while idle. */
import { setTimeout as sleep } from 'node:timers/promises'
import { requestText } from './http.js'
import { sum, usedBy } from './proc.js'
import type { Bench, Scenario } from './scenario.js'
import { statusOf } from './server.js'
import { check } from './wrong.js'

const START_MS = 60_000
/** After this time the start no longer affects the usage. */
const SETTLE_MS = 8_000

export const START: readonly Scenario[] = [
  {
    name: 'start',
    what: 'from the command of a built server to its first 2xx (POST /threads); `first_run` to the first run',
    unit: ' s',
    better: 'less',
    target: 2,
    per: 'start',
    starts: true,
    async run({ kind }) {
      const since = performance.now()
      const server = await kind!.start({ wait: false })
      try {
        const value = await until(server.port, requestText('POST', '/threads', {}), since)
        const body = { assistant_id: 'echo', input: { text: 'first' } }
        const first_run = await until(server.port, requestText('POST', '/runs/wait', body), since)
        return { value, also: { first_run } }
      } finally {
        await server.stop()
      }
    },
  },
  {
    name: 'idle-memory',
    what: 'resident memory of all processes after the start and one run (shared pages count for each), MB',
    unit: ' MB',
    better: 'less',
    target: 350,
    per: 'start',
    starts: true,
    host: 'idle',
    async run({ kind, quick }: Bench) {
      const server = await kind!.start()
      try {
        await sleep(quick ? 500 : SETTLE_MS)
        const { pss, rss } = usedBy(server.pids())
        check(sum(rss) > 0, 'the memory of the processes cannot be read: this needs /proc')
        // Not PSS: it depends on other processes that map the same files.
        return { value: sum(rss), also: { ...rss, pss: sum(pss) } }
      } finally {
        await server.stop()
      }
    },
  },
]

/** Seconds until the request is answered with 2xx. */
async function until(port: number, request: string, since: number): Promise<number> {
  while (performance.now() - since < START_MS) {
    const status = await statusOf(port, request)
    if (status >= 200 && status < 300) return (performance.now() - since) / 1000
    await sleep(5)
  }
  check(false, `no 2xx within ${START_MS / 1000} s`)
}
