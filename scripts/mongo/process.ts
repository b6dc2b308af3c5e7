/** Runs a MongoDB server for a test on a new folder; the test may kill and restart it. It ends with the test process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { keepRunning } from '../../cli/keep-running.js'
import { answersAt, freePort } from '../../cli/ports.js'
import { spawnTied } from '../../cli/tied-process.js'
import type { OwnWay } from './server.js'

/** docker may have to download an image first. */
const READY_MS = 120_000
const STOP_MS = 10_000

export interface MongoProcess {
  /** Its name and version. */
  name: string
  /** The URL of this database. */
  url(database: string): string
  /** Process id of the server; null while it is down. */
  pid(): number | null
  /** kill -9; it stays down until `restart`. */
  kill(): Promise<void>
  /** At the same port, on the same data. */
  restart(): Promise<void>
  /** Ends it and removes the data. */
  stop(): Promise<void>
}

/** Resolves when the server accepts connections. */
export async function startMongoProcess(way: OwnWay): Promise<MongoProcess> {
  const data = mkdtempSync(join(tmpdir(), 'weft-mongo-'))
  const port = await freePort()
  let pid: number | null = null
  const managed = keepRunning({
    name: 'MongoDB server',
    log: () => {},
    restart: false,
    spawn: () => spawnTied(way.command(data, port)),
    async ready(child) {
      child.once('exit', () => {
        pid = null
      })
      createInterface({ input: child.stdout! }).once('line', line => {
        pid = Number(line)
      })
      const deadline = Date.now() + READY_MS
      while (child.exitCode === null && child.signalCode === null && Date.now() < deadline) {
        if (await answersAt(port)) return
        await sleep(20)
      }
      throw new Error(`the MongoDB server (${way.kind}) does not accept connections`)
    },
  })
  await managed.start()
  const down = async () => {
    while (pid !== null) await sleep(10)
  }
  return {
    name: way.name,
    url: database => `mongodb://127.0.0.1:${port}/${database}`,
    pid: () => pid,
    async kill() {
      if (way.kill) await way.kill(port)
      else if (pid !== null) process.kill(pid, 'SIGKILL')
      await down()
    },
    async restart() {
      await managed.stop(STOP_MS)
      await down()
      await managed.start()
    },
    async stop() {
      await managed.stop(STOP_MS)
      rmSync(data, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
