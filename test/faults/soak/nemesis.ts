/** The faults of a soak: one a minute, in the order that the seed decides. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Libsql from 'libsql'
import { below, type Proc, type Roles } from '../../helpers/cluster.js'

export interface Fault {
  name: string
  /** Resolves when what was killed runs again. */
  inject(roles: Roles): Promise<void>
}

const AWAY_MS = 1_000

async function pause({ kill }: Pick<Proc, 'kill'>, ms: number): Promise<void> {
  kill('SIGSTOP')
  try {
    await sleep(ms)
  } finally {
    kill('SIGCONT')
  }
}

/** Ends a process of the role and starts another one. */
async function replace(
  roles: Roles,
  role: 'edge' | 'graphs' | 'resources',
  end: (old: Proc) => unknown,
): Promise<void> {
  const all = role === 'edge' ? roles.edges : roles[role]
  const at = all.length - 1
  await end(all[at]!)
  all[at] = await roles.add(role)
  if (role === 'edge') roles.urls[at] = `http://127.0.0.1:${all[at].port}`
}

const killed = (old: Proc) =>
  new Promise(done => {
    old.child.once('exit', done)
    old.kill('SIGKILL')
  })

export const FAULTS: readonly Fault[] = [
  { name: 'kill -9 of a graph worker', inject: roles => replace(roles, 'graphs', killed) },
  { name: 'kill -9 of an edge', inject: roles => replace(roles, 'edge', killed) },
  { name: 'kill -9 of the resource worker', inject: roles => replace(roles, 'resources', killed) },
  { name: 'SIGTERM of a graph worker', inject: roles => replace(roles, 'graphs', old => old.stop()) },
  { name: 'SIGSTOP of a graph worker for 8 s', inject: ({ graphs }) => pause(graphs[0]!, 8_000) },
  { name: 'SIGSTOP of the resource worker for 4 s', inject: ({ resources }) => pause(resources[0]!, 4_000) },
  {
    name: 'kill -9 of a host',
    async inject({ graphs }) {
      const [host] = below(graphs[0]!.pid)
      if (host !== undefined) process.kill(host, 'SIGKILL')
    },
  },
  {
    name: 'kill -9 of the broker',
    async inject({ nats }) {
      nats.kill()
      await sleep(AWAY_MS)
      await nats.restart()
    },
  },
  {
    name: 'the folder of the broker is deleted',
    async inject({ nats }) {
      nats.kill()
      await sleep(AWAY_MS)
      rmSync(join(nats.data, 'nats'), { recursive: true, force: true })
      await nats.restart()
    },
  },
  {
    name: 'SIGSTOP of the broker for 4 s',
    async inject({ nats }) {
      const pid = nats.pid()
      if (pid !== null) await pause({ kill: signal => process.kill(pid, signal) }, 4_000)
    },
  },
  {
    name: 'the database is locked for 4 s',
    async inject({ nats }) {
      const db = new Libsql(join(nats.data, 'weft.db'))
      try {
        db.exec('PRAGMA busy_timeout = 30000')
        db.exec('BEGIN IMMEDIATE')
        await sleep(4_000)
        db.exec('ROLLBACK')
      } finally {
        db.close()
      }
    },
  },
]
