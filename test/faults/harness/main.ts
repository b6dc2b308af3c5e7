/** `npm run faults`: injects faults into real processes, checks what is promised, and writes docs/faults.md. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { root } from '../../../cli/root.js'
import { UserError } from '../../../cli/user-error.js'
import { machine } from '../../../scripts/bench/report.js'
import { isForeign } from '../../../scripts/checks/foreign-settings.js'
import { startMongo } from '../../helpers/stores/mongo-server.js'
import { startPostgres } from '../../helpers/stores/postgres-server.js'
import { runSoak } from '../soak/main.js'
import { HELP, type Options, optionsOf } from './options.js'
import { randomOf } from './random.js'
import { merge, readResults, writeResults } from './report.js'
import type { Result, StoreName } from './result.js'
import type { Row } from './row.js'
import { loadRows, RANDOM_ROW } from './rows.js'
import { openStage, type Stage, type Tally } from './stage.js'

const OURS = join(root, '.faults')

async function main(args: string[]): Promise<void> {
  const options = optionsOf(args)
  if (options === null) return void process.stdout.write(HELP)
  const rows = await loadRows()
  if (options.page) return save(options, rows)
  const selected = rows.filter(({ number }) =>
    number === RANDOM_ROW ? options.random > 0 : options.only === null || options.only.includes(number),
  )
  if (selected.length === 0) throw new UserError(`--only: expected numbers of ${rows.map(({ number }) => number)}`, 2)
  say(`seed ${options.seed}`)
  // A row that did not await one of its promises falls short; the others go on.
  process.on('unhandledRejection', error =>
    current?.expect(false, `a promise was rejected: ${(error as Error).message}`),
  )
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  let short = 0
  for (const store of options.stores) {
    const server = await startServer(store, options)
    const tally: Tally = { streams: 0, wrong: 0, broken: 0 }
    try {
      for (const row of selected) {
        if (stop.signal.aborted || (row.oneStore !== undefined && store !== 'sqlite' && options.only === null)) continue
        for (let n = 0; n < (row.number === RANDOM_ROW ? options.random : 1); n++) {
          const result = await execute(row, store, options.seed + n, { options, server, tally })
          if (result.short.length > 0) short++
          save(options, rows, result)
        }
      }
    } finally {
      await server?.stop()
    }
  }
  say(short === 0 ? 'every row held' : `${short} rows fell short; their ledgers and logs are in .faults/`)
  process.exit(short === 0 ? 0 : 1)
}

type Server = Awaited<ReturnType<typeof startMongo | typeof startPostgres>>

/** Null: the store is embedded. */
async function startServer(store: StoreName, { quick }: Options): Promise<Server | null> {
  if (store === 'sqlite') return null
  return store === 'mongo' ? startMongo({ lasting: !quick }) : startPostgres()
}

/** The stage of the row that is executed. */
let current: Stage | null = null

interface Place {
  options: Options
  server: Server | null
  tally: Tally
}

async function execute(row: Row, store: StoreName, seed: number, { options, server, tally }: Place): Promise<Result> {
  const { quick, long, times } = options
  say(`${row.number}. ${row.name} (${store})`)
  const folder = join(OURS, `${row.number}-${store}-${seed}`)
  rmSync(folder, { recursive: true, force: true })
  const database = server && { name: server.name, url: await server.url() }
  const random = randomOf(seed)
  const stage = (current = openStage({ store, quick, long, times, random, folder, database, tally, say }))
  const since = performance.now()
  const busy = Math.round(loadavg()[0]! * 10) / 10
  const measured = await row.run(stage).catch(error => {
    const { message, stack = message } = error as Error
    const file = join(folder, 'error.txt')
    writeFileSync(file, stack)
    stage.expect(false, `the row could not be executed: ${message.split('\n')[0]} (${relative(root, file)})`)
    return { load: '', measured: '' }
  })
  await stage.close().catch(error => stage.expect(false, `the processes did not stop: ${(error as Error).message}`))
  const seconds = Math.round((performance.now() - since) / 1_000)
  if (stage.short.length === 0) rmSync(folder, { recursive: true, force: true })
  say(`  ${measured.load}: ${measured.measured} (${seconds} s) ${stage.short.length === 0 ? 'held' : 'SHORT'}`)
  const only = row.number === RANDOM_ROW ? '--random 1' : `--only ${row.number}`
  const command = ['npm run faults --', options.args, only, `--store ${store}`, `--seed ${seed}`]
    .filter(Boolean)
    .join(' ')
  const date = new Date().toISOString().slice(0, 10)
  return {
    number: row.number,
    store,
    ...(stage.server === null ? {} : { server: stage.server }),
    ...measured,
    short: stage.short,
    date,
    command,
    size: stage.load(),
    seconds,
    busy,
  }
}

function save({ out }: Options, rows: readonly Row[], result?: Result): void {
  const folder = resolve(root, out)
  mkdirSync(folder, { recursive: true })
  const own = join(folder, 'faults.md')
  const page = readFileSync(existsSync(own) ? own : join(root, 'docs/faults.md'), 'utf8')
  const kept = readResults(folder)
  writeResults(folder, page, rows, result === undefined ? kept : merge(kept, [result], machineText()))
}

function machineText(): string {
  const { cores, model, memory_gb, node, kernel, weft } = machine()
  return `Weft ${weft} on ${cores} cores of ${model}, ${memory_gb} GB, Linux ${kernel}, Node.js ${node}.`
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  // Settings of the person's shell do not reach the servers.
  for (const name of Object.keys(process.env)) if (isForeign(name)) delete process.env[name]
  const args = process.argv.slice(2)
  if (args.includes('--soak')) process.exit((await runSoak(args, say)) === 0 ? 0 : 1)
  await main(args)
} catch (error) {
  if (!(error instanceof UserError)) throw error
  process.stderr.write(`faults: ${error.message}\n`)
  process.exitCode = error.exitCode
}
