import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Libsql from 'libsql'
import { startOwnMongo } from '../../helpers/stores/mongo-server.js'
import { startOwnPostgres } from '../../helpers/stores/postgres-server.js'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { newThread, startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'

/** Every call is answered within this time, /ready says 503 within DOWN_MS and 200 again within UP_MS. */
const CALL_MS = 5_000
const DOWN_MS = 2_000
const UP_MS = 5_000
/** Creates that come together for a few threads: none waits for the timeouts of those before it. */
const THREADS = 5

export const row: Row = {
  number: 8,
  name: 'Store down and up',
  fault:
    'PostgreSQL and MongoDB: kill -9 of the database, started again later. SQLite: another process holds the lock of the file.',
  promised:
    `Calls are answered within ${CALL_MS / 1_000} s, writes with 503 and \`Retry-After\`; \`/ready\` says 503 within ` +
    `${DOWN_MS / 1_000} s and 200 within ${UP_MS / 1_000} s. Runs in flight wait and go on; no accepted run is lost.`,
  async run(stage) {
    const { store } = stage
    const database = store === 'sqlite' ? null : await (store === 'mongo' ? startOwnMongo() : startOwnPostgres())
    if (database !== null) {
      stage.server = database.name
      stage.defer(() => database.stop())
    }
    const own: { [name: string]: string } =
      database === null
        ? {}
        : store === 'mongo'
          ? { MONGODB_URL: database.url('weft') }
          : { DATABASE_URI: database.url('postgres') }
    const roles = await stage.roles({ env: own })
    const url = roles.urls[0]!
    const seconds = database === null ? 10 : stage.size(8, 20)
    const perSecond = stage.size(10, 30)
    const half = { urls: () => roles.urls, perSecond: perSecond / 2 }
    const load = startLoad(stage, { ...half, steps: 4, ms: 100 })
    const threads = (await Promise.all(Array.from({ length: THREADS }, () => newThread(stage, url)))) as string[]
    const crowd = startLoad(stage, { ...half, steps: 1, ms: 1, threads })
    await sleep(2_000)
    const ready = () => fetch(`${url}/ready`).then(({ status }) => status)
    const statusAfter = async (wanted: number) => {
      const since = performance.now()
      await until(async () => (await ready()) === wanted, 30_000)
      return performance.now() - since
    }
    let down: number
    let up: number
    if (database !== null) {
      await database.kill()
      down = await statusAfter(503)
      await sleep(seconds * 1_000)
      await database.restart()
      up = await statusAfter(200)
    } else {
      const db = new Libsql(join(roles.nats.data, 'weft.db'))
      db.exec('PRAGMA busy_timeout = 30000')
      db.exec('BEGIN IMMEDIATE')
      down = await statusAfter(503)
      await sleep(seconds * 1_000)
      db.exec('ROLLBACK')
      db.close()
      up = await statusAfter(200)
    }
    const { call, slowest } = stage.ledger
    const { outcome } = await call({ url, path: '/threads', body: {} })
    stage.expect(outcome === 'ok', 'a call fails although the edge is ready')
    await Promise.all([load.stop(), crowd.stop()])
    const slow = slowest()
    const refused = stage.ledger.count('fail')
    for (const each of [load, crowd]) await checkAll(stage, roles, each)
    const foreign = [...stage.ledger.refused()].filter(status => status !== 503)
    stage.expect(foreign.length === 0, `calls were refused with ${foreign}`)
    stage.expect(refused > 0, 'no call was refused: the fault had no effect')
    stage.expectTime(slow <= CALL_MS, `a call took ${(slow / 1_000).toFixed(1)} s`)
    stage.expectTime(down <= DOWN_MS, `/ready said 503 after ${Math.round(down)} ms`)
    stage.expectTime(up <= UP_MS, `/ready said 200 after ${Math.round(up)} ms`)
    const { length } = load.items
    return {
      load: `${length + crowd.items.length} runs at ${perSecond} a second, ${crowd.items.length} of them on ${THREADS} threads; ${database === null ? 'locked' : 'away'} for ${seconds} s`,
      measured:
        `${load.succeeded() + crowd.succeeded()} of ${length + crowd.items.length} accepted runs succeeded; ${refused} calls were refused, the slowest call took ` +
        `${(slow / 1_000).toFixed(1)} s; \`/ready\` said 503 after ${Math.round(down)} ms, 200 after ${Math.round(up)} ms`,
    }
  },
}
