/** A real NATS server on a free port and a new folder, with the users of production. It ends with the test process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Role } from '../../bus/connect.js'
import { startNatsProcess } from '../../cli/nats/process.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { SETTINGS } from '../../schemas/config.js'

/** One server, or several (nats-cluster.ts). */
export interface Broker {
  /** Also the data folder of roles. */
  data: string
  url(role: Role): string
  /** Stops it and removes the folder. */
  stop(): Promise<void>
}

export interface TestNats extends Broker {
  port: number
  /** Process id of the server; null while it is down. */
  pid(): number | null
  /** kill -9; it stays down until `restart`. */
  kill(): void
  /** At the same port, on the same folder. */
  restart(): Promise<void>
}

export async function startNats(): Promise<TestNats> {
  const server = await findNatsServer()
  const data = mkdtempSync(join(tmpdir(), 'weft-nats-'))
  const nats = await startNatsProcess({ server, data, max_file_store: SETTINGS.max_file_store.default, restart: false })
  return {
    port: nats.port,
    data,
    url: nats.urlOf,
    pid: nats.pid,
    kill: nats.kill,
    restart: nats.restart,
    async stop() {
      await nats.stop()
      rmSync(data, { recursive: true, force: true })
    },
  }
}
