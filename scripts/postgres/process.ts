/** Runs a PostgreSQL server for a test on a new folder; the test may kill and restart it. It ends with the test process. */
import { execFileSync } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { keepRunning } from '../../cli/keep-running.js'
import { freePort } from '../../cli/ports.js'
import { spawnTied } from '../../cli/tied-process.js'
import { asServerUser, type PostgresWay, serverUser } from './server.js'

const READY_MS = 60_000
const STOP_MS = 10_000
const USER = 'weft'

export interface PostgresProcess {
  /** Its name, with its version. */
  name: string
  /** The URL of this database, which must exist; `postgres` does. */
  url(database: string): string
  create(database: string): Promise<void>
  /** Process id of the server; null while it is down. */
  pid(): number | null
  /** kill -9; it stays down until `restart`. */
  kill(): Promise<void>
  /** At the same port, on the same data. */
  restart(): Promise<void>
  /** Ends it and removes the data. */
  stop(): Promise<void>
}

interface Begin {
  /** Where the folder of the server is made. */
  parent?: string
  /** The server is a standby of this one, by streaming replication. */
  standbyOf?: PostgresProcess
}

/** Resolves when the server accepts connections. `settings` as in postgresql.conf. */
export async function startPostgresProcess(
  { bin, name }: PostgresWay & { kind: 'own' },
  settings: { [name: string]: string } = {},
  { parent = tmpdir(), standbyOf }: Begin = {},
): Promise<PostgresProcess> {
  const folder = mkdtempSync(join(parent, 'weft-postgres-'))
  const user = serverUser()
  if (user !== null) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  if (standbyOf === undefined)
    run(
      bin,
      'initdb',
      ...['-D', data, '-U', USER, '--auth=trust', '--encoding=UTF8', '--no-locale', '--wal-segsize=4'],
      ...['--no-sync', '--no-instructions'],
    )
  // It writes where its primary is into the folder.
  else run(bin, 'pg_basebackup', '-D', data, '-R', '-d', standbyOf.url('postgres'), '--checkpoint=fast', '--no-sync')
  const port = await freePort()
  const all = { port: `${port}`, listen_addresses: '127.0.0.1', unix_socket_directories: folder, ...settings }
  const command = asServerUser([
    join(bin, 'postgres'),
    '-D',
    data,
    ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ])
  let pid: number | null = null
  const managed = keepRunning({
    name: 'PostgreSQL server',
    log: () => {},
    restart: false,
    spawn: () => spawnTied(command, { cwd: folder }),
    async ready(child) {
      child.once('exit', () => {
        pid = null
      })
      createInterface({ input: child.stdout! }).once('line', line => {
        pid = Number(line)
      })
      const deadline = Date.now() + READY_MS
      while (child.exitCode === null && child.signalCode === null && Date.now() < deadline) {
        if (await answers(port)) return
        await sleep(50)
      }
      throw new Error('the PostgreSQL server does not accept connections')
    },
  })
  await managed.start()
  const down = async () => {
    while (pid !== null) await sleep(10)
  }
  return {
    name,
    url: database => `postgres://${USER}@127.0.0.1:${port}/${database}`,
    async create(database) {
      const client = clientAt(port)
      await client.connect()
      await client.query(`CREATE DATABASE ${database}`)
      await client.end()
    },
    pid: () => pid,
    async kill() {
      if (pid !== null) process.kill(pid, 'SIGKILL')
      await down()
    },
    async restart() {
      await fast(pid)
      await managed.stop(STOP_MS)
      await down()
      // The processes of a killed server end a moment after it, and keep its shared memory for so long.
      for (let tries = 0; ; tries++)
        try {
          return await managed.start()
        } catch (error) {
          if (tries === 20) throw error
          await sleep(250)
        }
    },
    async stop() {
      await fast(pid)
      await managed.stop(STOP_MS)
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

/** SIGTERM would wait for the clients (https://www.postgresql.org/docs/current/server-shutdown.html). */
async function fast(pid: number | null): Promise<void> {
  if (pid !== null) process.kill(pid, 'SIGINT')
}

function run(bin: string, program: string, ...args: string[]): void {
  const [file, ...rest] = asServerUser([join(bin, program), ...args])
  execFileSync(file!, rest, { stdio: ['ignore', 'ignore', 'pipe'], cwd: '/' })
}

const clientAt = (port: number) =>
  new pg.Client({ host: '127.0.0.1', port, user: USER, database: 'postgres', connectionTimeoutMillis: 1_000 })

async function answers(port: number): Promise<boolean> {
  const client = clientAt(port)
  client.on('error', () => {})
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}
