/** Runs one scenario against one server and records the result. */
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Budget, budgetMeter } from './budget.js'
import { type HostOrder, measureHost } from './host.js'
import { requestText } from './http.js'
import { type LimitAnswer, type LimitKind, measureLimit } from './limit.js'
import { closedLoop } from './load.js'
import { stealMeter, sum } from './proc.js'
import type { Bench, Outcome, Scenario } from './scenario.js'
import { askJson } from './scenarios-resources.js'
import type { Kind, Server } from './server.js'
import { check, Wrong } from './wrong.js'

export interface Measured extends Partial<Outcome> {
  scenario: string
  server: string
  round: number
  budget?: Budget | null
  /** Share of all cores that the hypervisor gave to other machines during the window, 0 to 1. */
  stolen?: number
  /** The reason when there is no value: a wrong answer. */
  failure?: string
}

export interface Windows {
  warm: number
  seconds: number
  quick: boolean
  minutes?: number
  size?: number | null
}

/** Above this share of stolen time a window is measured again. */
const STOLEN = 0.05
const AGAIN = 2
const PAUSE_MS = 5_000

/**
 * The result of `work`, repeated a few times at most when other machines had the cores meanwhile. Of several results the
 * one with the least stolen time is taken, at any figure.
 */
export async function undisturbed<T extends Measured | null>(
  { quick }: Pick<Windows, 'quick'>,
  work: () => Promise<T>,
  { meter = stealMeter, pause_ms = PAUSE_MS } = {},
): Promise<T> {
  for (let best: T | null = null, tries = 0; ; tries++) {
    const steal = meter()
    const one = await work()
    if (one === null || one.failure !== undefined) return one
    one.stolen = steal()
    if (best === null || one.stolen < best!.stolen!) best = one
    if (quick || best.stolen! <= STOLEN || tries === AGAIN) return best
    await sleep(pause_ms)
  }
}

export async function measure(
  scenario: Scenario,
  { server, kind }: { server: Server; kind: Kind | null },
  windows: Windows,
  round: number,
): Promise<Measured> {
  const meter = budgetMeter(server)
  const bench: Bench = { server, kind, minutes: 1, size: null, ...windows, meter }
  const of = { scenario: scenario.name, server: server.name, round }
  try {
    return { ...of, ...(await scenario.run(bench)), budget: meter.budget() }
  } catch (error) {
    const { message, stack } = error as Error
    return { ...of, failure: error instanceof Wrong ? message : (stack ?? message) }
  }
}

/** The same graph without a server; null when the scenario has no such limit. */
export async function measureInProcess(
  { name, limit, unit }: Scenario,
  { warm, seconds }: Windows,
  round: number,
  measureKind: (order: { kind: LimitKind; warm: number; seconds: number }) => Promise<LimitAnswer> = measureLimit,
): Promise<Measured | null> {
  if (limit === undefined) return null
  const of = { scenario: name, server: 'in-process', round }
  try {
    const { perSecond, latency, cpu, count } = await measureKind({ kind: limit, warm, seconds })
    const none = { written: {}, rss: {}, pss: {}, client: 0, broker: null, commits: null }
    const value = unit === ' ms' ? latency.p50 : perSecond
    return { ...of, value, latency, operations: count, budget: { ...none, cpu: { process: cpu }, seconds } }
  } catch (error) {
    return { ...of, failure: (error as Error).message }
  }
}

/** The same in a graph host without a server; null when the scenario has no such part. */
export async function measureInHost(
  { name, host, unit }: Scenario,
  { warm, seconds, quick, python, app }: Windows & Pick<HostOrder, 'python' | 'app'>,
  round: number,
): Promise<Measured | null> {
  if (host === undefined) return null
  const of = { scenario: name, server: 'host', round }
  try {
    const { perSecond, latency, count, budget } = await measureHost({ kind: host, warm, seconds, quick, python, app })
    const values: { [unit: string]: number } = { ' ms': latency.p50, ' MB': sum(budget.rss), ' running': count }
    return { ...of, value: values[unit] ?? perSecond, latency, operations: count, budget }
  } catch (error) {
    return { ...of, failure: (error as Error).message }
  }
}

/** The client's own limit against a server that does nothing: requests per second, CPU time per request. */
export async function measureClient({ seconds }: Windows): Promise<{ perSecond: number; cpu_us: number }> {
  const child = fork(join(import.meta.dirname, 'trivial-main.js'), [], { execArgv: [] })
  try {
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', message => resolve(message as number))
      child.once('exit', code => reject(new Error(`the server that does nothing ended with code ${code}`)))
    })
    const meter = budgetMeter({ pids: () => [], data: null, monitor: null })
    const request = requestText('GET', '/')
    const { perSecond, count } = await closedLoop(
      { port, clients: 64, warm: 0.5, seconds: Math.min(seconds, 3), meter },
      async ({ connection }) => {
        const { n } = await askJson<{ n?: number }>(connection, request)
        check(n === 1, 'another answer came')
      },
    )
    return { perSecond, cpu_us: (meter.budget()!.client / count) * 1e6 }
  } finally {
    child.kill('SIGTERM')
  }
}
