/**
 * The cost of a window besides time: messages through the broker, commits of the store, CPU time and written bytes per
 * role. All of it is read from outside: the broker's /varz, the change counter in SQLite's WAL index, /proc.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { openConnection, requestText } from './http.js'
import type { Meter } from './load.js'
import { between, type Used, usedBy } from './proc.js'

export interface Budget extends Used {
  seconds: number
  /** CPU seconds of the bench itself. */
  client: number
  /** Messages and bytes that the broker received and sent; null without a monitoring port. */
  broker: Broker | null
  /** Transactions of the embedded store; null when there is none. */
  commits: number | null
}

export interface Broker {
  in_msgs: number
  out_msgs: number
  in_bytes: number
  out_bytes: number
}

/** The places that are read. */
export interface Watched {
  pids(): number[]
  /** Data folder of a Weft on this machine. */
  data: string | null
  /** Monitoring port of its broker. */
  monitor: number | null
}

interface Look {
  at: number
  used: Used
  client: number
  broker: Broker | null
  commits: number | null
}

/** A meter that keeps the budget of its last window. */
export function budgetMeter(watched: Watched): Meter & { budget(): Budget | null } {
  let from: Look | null = null
  let budget: Budget | null = null
  return {
    async begin() {
      budget = null
      from = await look(watched)
    },
    async end() {
      if (from === null) throw new Error('end() before begin()')
      const to = await look(watched)
      budget = {
        ...between(from.used, to.used),
        seconds: (to.at - from.at) / 1000,
        client: to.client - from.client,
        broker: from.broker && to.broker && difference(from.broker, to.broker),
        commits: from.commits === null || to.commits === null ? null : (to.commits - from.commits) >>> 0,
      }
    },
    budget: () => budget,
  }
}

async function look({ pids, data, monitor }: Watched): Promise<Look> {
  const broker = monitor === null ? null : await brokerOf(monitor)
  const { user, system } = process.cpuUsage()
  return {
    at: performance.now(),
    used: usedBy(pids()),
    client: (user + system) / 1e6,
    broker,
    commits: data === null ? null : commitsOf(data),
  }
}

async function brokerOf(port: number): Promise<Broker | null> {
  const connection = openConnection(port)
  try {
    const { status, body } = await connection.ask(requestText('GET', '/varz'))
    if (status !== 200) return null
    const { in_msgs, out_msgs, in_bytes, out_bytes } = JSON.parse(body) as Broker
    return { in_msgs, out_msgs, in_bytes, out_bytes }
  } finally {
    connection.close()
  }
}

const difference = (a: Broker, b: Broker): Broker => ({
  in_msgs: b.in_msgs - a.in_msgs,
  out_msgs: b.out_msgs - a.out_msgs,
  in_bytes: b.in_bytes - a.in_bytes,
  out_bytes: b.out_bytes - a.out_bytes,
})

/**
 * SQLite's count of transactions: the header of the WAL index (https://www.sqlite.org/walformat.html, 2.1) has it at
 * byte 8, in the byte order of the machine. It wraps at 2³².
 */
function commitsOf(data: string): number | null {
  try {
    const file = openSync(join(data, 'weft.db-shm'), 'r')
    try {
      const head = Buffer.alloc(12)
      readSync(file, head, 0, 12, 0)
      return head.readUInt32LE(8)
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}
