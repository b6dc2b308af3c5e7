/**
 * The tools of a row: real processes in a new folder, a ledger, the file of the witness, random numbers of the printed
 * seed, and the sentences that say what fell short. All processes end with the stage.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { RoleName } from '../../../cli/commands/roles.js'
import { allGone, below, type Proc, type Roles, type RolesOptions, startRoles } from '../../helpers/cluster.js'
import type { Broker, TestNats } from '../../helpers/nats.js'
import { type Ledger, openLedger } from './ledger.js'
import type { Random } from './random.js'
import type { Size, StoreName } from './result.js'

/** Streams of all rows of a command: row 35 is asserted by every row. */
export interface Tally {
  streams: number
  wrong: number
  /** Connections that broke and were replaced. */
  broken: number
}

export interface Stage {
  store: StoreName
  /** The database server that answers, with its version; null: there is none. */
  server: string | null
  /** The size of the load: `--quick`, the usual one, `--long` (the usual one when there is none). */
  size(quick: number, usual: number, long?: number): number
  quick: boolean
  /** The load of the sizes that were asked for. */
  load(): Size
  random: Random
  tally: Tally
  folder: string
  /** The file to which the graph `witness` appends. */
  witness: string
  ledger: Ledger
  /** The store as environment variables of a process. */
  env(): { DATABASE_URI: string; MONGODB_URL: string }
  /** Two edges, three graph workers of ten slots, and the resource workers that the store allows. */
  roles<B extends Broker = TestNats>(options?: RolesOptions<B>): Promise<Roles<B>>
  /** Kill -9. What runs below the process must end by itself. */
  kill(proc: Proc): void
  /** SIGSTOP; the stage lets it continue at its end. */
  pause(proc: Proc): void
  resume(proc: Proc): void
  /** Kill -9 of one process of a role, and another one in its place after `ms`. */
  replace(roles: Roles<Broker>, role: Exclude<RoleName, 'deployer'>, n: number, ms?: number): Promise<void>
  /** Waits until no process is left of those below killed ones. */
  noChildLeft(): Promise<void>
  /** Notes the sentence when the promise was not held. */
  expect(held: boolean, sentence: string): void
  /** The same for a figure in time, unless `--no-times`. */
  expectTime(held: boolean, sentence: string): void
  short: string[]
  /** A line for the person at the terminal. */
  say(line: string): void
  /** Undone at the end, the latest first. */
  defer(undo: () => unknown): void
  close(): Promise<void>
}

export interface StageOptions {
  store: StoreName
  quick: boolean
  long: boolean
  times: boolean
  random: Random
  folder: string
  /** A database for this row; null: the store is embedded. */
  database: { name: string; url: string } | null
  tally: Tally
  say(line: string): void
}

const APP = 'test/apps/faults'
/** Hosts end when their pipe closes. */
const CHILDREN_MS = 15_000

export function openStage({ store, quick, long, times, random, folder, database, tally, say }: StageOptions): Stage {
  mkdirSync(folder, { recursive: true })
  const undos: (() => unknown)[] = []
  const short: string[] = []
  const orphans = new Set<number>()
  const paused = new Set<Proc>()
  let load: Size = 'full'
  const stage: Stage = {
    store,
    server: database?.name ?? null,
    quick,
    random,
    tally,
    folder,
    witness: join(folder, 'witness.log'),
    ledger: openLedger(join(folder, 'ledger.jsonl')),
    short,
    say,
    size(small, usual, large = usual) {
      if (large !== usual && !long) load = 'usual'
      return quick ? small : long ? large : usual
    },
    load: () => (quick ? 'small' : load),
    env() {
      const url = database?.url ?? ''
      return { DATABASE_URI: store === 'postgres' ? url : '', MONGODB_URL: store === 'mongo' ? url : '' }
    },
    async roles<B extends Broker = TestNats>({ env = {}, ...options }: RolesOptions<B> = {}) {
      const roles = await startRoles<B>({
        edges: 2,
        graphs: 3,
        resources: store === 'sqlite' ? 1 : 2,
        app: APP,
        env: { ...stage.env(), N_JOBS_PER_WORKER: '10', ...env },
        ...options,
      })
      undos.push(async () => {
        const procs = [...roles.resources, ...roles.graphs, ...roles.edges, ...roles.added]
        const children = procs.flatMap(({ pid }) => below(pid))
        await roles.stop()
        await allGone(children, CHILDREN_MS).catch(error => stage.expect(false, (error as Error).message))
      })
      return roles
    },
    kill(proc) {
      for (const pid of below(proc.pid)) orphans.add(pid)
      proc.kill('SIGKILL')
    },
    pause(proc) {
      paused.add(proc)
      proc.kill('SIGSTOP')
    },
    resume(proc) {
      paused.delete(proc)
      proc.kill('SIGCONT')
    },
    async replace(roles, role, n, ms = 0) {
      const procs = { edge: roles.edges, resources: roles.resources, graphs: roles.graphs }[role]
      stage.kill(procs[n]!)
      if (ms > 0) await new Promise(done => setTimeout(done, ms))
      const proc = await roles.add(role)
      procs[n] = proc
      if (role === 'edge') roles.urls[n] = `http://127.0.0.1:${proc.port}`
    },
    async noChildLeft() {
      await allGone([...orphans], CHILDREN_MS).catch(error => stage.expect(false, (error as Error).message))
      orphans.clear()
    },
    expect(held, sentence) {
      if (held) return
      short.push(sentence)
      say(`  short: ${sentence}`)
    },
    expectTime(held, sentence) {
      if (times) stage.expect(held, sentence)
    },
    defer: undo => void undos.push(undo),
    async close() {
      for (const proc of paused) proc.kill('SIGCONT')
      for (const undo of undos.reverse()) await undo()
    },
  }
  return stage
}
