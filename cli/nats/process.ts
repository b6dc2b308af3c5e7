/** Runs the NATS server as a child that ends with this process; it is restarted at the same port within a second. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '../../bus/connect.js'
import { keepRunning } from '../keep-running.js'
import { answersAt, isFree } from '../ports.js'
import { isRunning } from '../processes.js'
import { spawnTied } from '../tied-process.js'
import { type NatsClusterMember, readPasswords, writeNatsConfig } from './config.js'

export interface NatsOptions {
  /** Path of the server, from findNatsServer. */
  server: string
  data: string
  max_file_store: number
  /** Default: the port of the last start on this folder when it is free, else any. */
  port?: number
  /** Port of its monitoring pages; absent: no pages. */
  monitor?: number
  /** The cluster of a server beside others. */
  cluster?: NatsClusterMember
  /** False: no automatic restart. */
  restart?: boolean
  log?: (line: string) => void
  onGivenUp?: (error: Error) => void
}

export interface NatsProcess {
  port: number
  urlOf(role: Role): string
  /** Process id of the server itself; null while it is down. */
  pid(): number | null
  /** When this process is killed, the server ends after the process `pid`, which needs it to stop in order. */
  outlive(pid: number): void
  /** kill -9 of the server. */
  kill(): void
  /** Stops it if it runs and starts it at the same port. */
  restart(): Promise<void>
  stop(): Promise<void>
}

interface ServerRecord {
  owner: number
  pid: number
  port: number
}

const READY_MS = 20_000
/**
 * Without a limit the server lets its garbage grow to the size of what it holds: 530 to 600 MB while 320 MB of events were
 * stored within seconds, 350 to 420 MB with this one, for the same CPU.
 */
const GO = { GOMEMLIMIT: '192MiB' }
const STOP_MS = 5_000

const recordFile = (data: string): string => join(data, 'nats-server.json')

/** Starts the server on the data folder; resolves when it accepts connections. */
export async function startNatsProcess({
  server,
  data,
  max_file_store,
  port,
  monitor,
  cluster,
  restart = true,
  log = () => {},
  onGivenUp,
}: NatsOptions): Promise<NatsProcess> {
  const folder = resolve(data)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const earlier = readRecord(folder)
  if (earlier !== null) await endOrphan(folder, earlier, log)
  let chosen = port ?? (earlier !== null && (await isFree('127.0.0.1', earlier.port)) ? earlier.port : -1)
  let pid: number | null = null
  let user: number | null = null

  const managed = keepRunning({
    name: 'NATS server',
    log,
    restart,
    ...(onGivenUp ? { onGivenUp } : {}),
    spawn: () => {
      pid = null
      const path = writeNatsConfig({ data: folder, port: chosen, max_file_store, monitor, cluster })
      const child = spawnTied([server, '-c', path], { env: { ...GO, ...process.env } })
      child.stdin!.on('error', () => {})
      if (user !== null) child.stdin!.write(`${user}\n`)
      return child
    },
    ready: async child => {
      child.once('exit', () => {
        pid = null
      })
      const serverPid = await firstNumber(child)
      pid = serverPid
      const deadline = performance.now() + READY_MS
      while (child.exitCode === null && child.signalCode === null && performance.now() < deadline) {
        if (chosen === -1) chosen = portOf(folder, serverPid)
        if (chosen !== -1 && (await answersAt(chosen, 'INFO '))) {
          writeFileSync(
            recordFile(folder),
            `${JSON.stringify({ owner: process.pid, pid: serverPid, port: chosen } satisfies ServerRecord)}\n`,
          )
          rmSync(portsFile(folder, serverPid), { force: true })
          return
        }
        await sleep(10)
      }
      throw new Error(`it does not accept connections; see ${join(folder, 'nats-server.log')}`)
    },
  })
  await managed.start()

  return {
    port: chosen,
    urlOf: role => natsUrlOf(folder, role),
    pid: () => pid,
    outlive(pid) {
      user = pid
      managed.child()?.stdin?.write(`${pid}\n`)
    },
    kill() {
      if (pid !== null) process.kill(pid, 'SIGKILL')
    },
    async restart() {
      await managed.stop(STOP_MS)
      await managed.start()
    },
    stop: () => managed.stop(STOP_MS),
  }
}

/** The URL of a role at the server that was started on `data`; throws an Error with one sentence when none was. */
export function natsUrlOf(data: string, role: Role): string {
  const record = readRecord(resolve(data))
  if (record === null)
    throw new Error(
      `no NATS server was started on ${resolve(data)}: set NATS_URL, or give --data of a running \`weft start\``,
    )
  return `nats://${role}:${encodeURIComponent(readPasswords(resolve(data))[role])}@127.0.0.1:${record.port}`
}

function readRecord(folder: string): ServerRecord | null {
  try {
    return JSON.parse(readFileSync(recordFile(folder), 'utf8')) as ServerRecord
  } catch {
    return null
  }
}

/** Handles the server of an earlier start on this folder: refuses to start while its launcher runs, else ends it. */
async function endOrphan(folder: string, { owner, pid }: ServerRecord, log: (line: string) => void): Promise<void> {
  if (!isRunning(pid) || !(await commandOf(pid)).includes(join(folder, 'nats.conf'))) return
  if (isRunning(owner))
    throw new Error(`${folder} is in use by another \`weft start\` (process ${owner}): stop it, or give another --data`)
  log(`ending the NATS server ${pid} that an earlier start left behind`)
  process.kill(pid, 'SIGTERM')
  const deadline = performance.now() + STOP_MS
  while (isRunning(pid) && performance.now() < deadline) await sleep(20)
  if (isRunning(pid)) process.kill(pid, 'SIGKILL')
  while (isRunning(pid) && performance.now() < deadline + 1_000) await sleep(20)
}

async function commandOf(pid: number): Promise<string> {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return new Promise(done => {
      let out = ''
      const ps = spawn('ps', ['-o', 'command=', '-p', `${pid}`], { stdio: ['ignore', 'pipe', 'ignore'] })
      ps.stdout.on('data', part => (out += part))
      ps.once('error', () => done(''))
      ps.once('close', () => done(out))
    })
  }
}

const portsFile = (folder: string, pid: number): string => join(folder, `nats-server_${pid}.ports`)

function portOf(folder: string, pid: number): number {
  try {
    const { nats } = JSON.parse(readFileSync(portsFile(folder, pid), 'utf8')) as { nats: string[] }
    return Number(new URL(nats[0]!).port)
  } catch {
    return -1
  }
}

function firstNumber(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.stdout!.once('data', part => resolve(Number(`${part}`.trim())))
    child.once('exit', () => reject(new Error('the shell ended')))
    child.once('error', reject)
  })
}
