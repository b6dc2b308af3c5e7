/**
 * The limit of a machine: the same graphs invoked directly by the library in one process, without a server, a store or
 * a client. It runs in a child process, so that it and the bench do not share an event loop.
 */
import { fork } from 'node:child_process'
import { join } from 'node:path'
import type { Spread } from './load.js'
import { benchApp, plainEnv } from './server.js'

export type LimitKind =
  | 'invoke'
  | 'invoke-saver'
  | 'steps-saver'
  | 'first-event'
  | 'first-event-16'
  | 'tokens'
  | 'custom'

export interface LimitOrder {
  kind: LimitKind
  app: string
  warm: number
  seconds: number
}

export interface LimitAnswer {
  perSecond: number
  latency: Spread
  /** CPU seconds of the process in the window. */
  cpu: number
  count: number
}

export function measureLimit(order: Omit<LimitOrder, 'app'>, app: string = benchApp): Promise<LimitAnswer> {
  const child = fork(join(import.meta.dirname, 'limit-main.js'), [], {
    execArgv: [],
    // The Node.js of the hosts that it is compared with.
    execPath: process.env.WEFT_NEWEST_NODE || process.execPath,
    env: plainEnv(),
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), (order.warm + order.seconds) * 1000 + 60_000)
  return new Promise<LimitAnswer>((resolve, reject) => {
    child.once('message', message => resolve(message as LimitAnswer))
    child.once('exit', (code, signal) =>
      reject(new Error(`the limit could not be measured: ended by ${signal ?? code}`)),
    )
    child.send({ ...order, app } satisfies LimitOrder)
  }).finally(() => {
    clearTimeout(timer)
    child.kill('SIGTERM')
  })
}
