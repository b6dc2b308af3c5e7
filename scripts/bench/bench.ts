/**
 * `npm run bench`: measures a server of this API beside its peers and checks every answer. It connects to
 * 127.0.0.1 only and stops the servers that it started. Exit code 1: a scenario failed on the measured server.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { root } from '../../cli/root.js'
import { UserError } from '../../cli/user-error.js'
import { type Measured, measure, measureClient, measureInHost, measureInProcess, undisturbed } from './measure.js'
import { HELP, type Options, optionsOf } from './options.js'
import { devServer } from './peer-js.js'
import { benchPython, measurePythonLimit, pythonApp, pythonDevServer } from './peer-python.js'
import { blockOf, linesOf, machine, short } from './report.js'
import { writeCosts } from './scale/costs.js'
import { writePlots } from './scale/plots.js'
import type { Scenario } from './scenario.js'
import {
  benchApp,
  giveTurn,
  type Kind,
  type Server,
  serverAt,
  weft,
  weftWithAuth,
  weftWithKeys,
  weftWithScheduling,
} from './server.js'
import { ONE_EACH, weftApart } from './server-apart.js'
import { writeTable } from './table.js'

interface Subject {
  kind: Kind | null
  server: Server
}

async function main(args: string[]): Promise<void> {
  const options = optionsOf(args)
  if (options === null) return void process.stdout.write(HELP)
  const { url, against, peers, scenarios } = options
  const python = options.python ? await benchPython() : null
  const given = python === null ? {} : { app: pythonApp, env: { WEFT_PYTHON: python } }
  const subjects: Subject[] = []
  const stop = async () => {
    for (const { server } of subjects.splice(0)) await server.stop()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void stop().finally(() => process.exit(130)))
  // One for each process that ends with this one.
  process.setMaxListeners(0)
  try {
    const before = loadavg()[0]!
    const client = await measureClient(options)
    say(`this client alone: ${short(client.perSecond)} requests/s, ${short(client.cpu_us)} µs each`)
    const kinds = url === null ? measuredKinds(options, given) : []
    if (against !== null) kinds.push(weft({ ...given, build: against, name: 'other build' }))
    if (peers.includes('keys')) kinds.push(weftWithKeys())
    if (peers.includes('auth')) kinds.push(weftWithAuth())
    if (peers.includes('scheduling')) kinds.push(weftWithScheduling())
    if (peers.includes('dev-server')) {
      const install = async () => (python === null ? devServer(say) : pythonDevServer(python))
      const peer = await install().catch(error => say(`without a peer: ${(error as Error).message}`))
      if (peer) kinds.push(peer)
    }
    if (url !== null) subjects.push({ kind: null, server: await serverAt(url) })
    for (const kind of kinds) subjects.push({ kind, server: await kind.start() })
    const all: Measured[] = []
    for (const scenario of scenarios) {
      for (const subject of subjects) if (!scenario.starts) await renew(subject)
      all.push(...(await alternate(scenario, subjects, options, python)))
      say(blockOf(scenario, linesOf([scenario], all, options)))
    }
    const lines = linesOf(scenarios, all, options)
    const at = new Date().toISOString()
    const file = options.json ?? join(root, '.bench', `${at.replaceAll(':', '-')}.json`)
    mkdirSync(dirname(file), { recursive: true })
    const { scenarios: _, ...settings } = options
    const load = { before, after: loadavg()[0]! }
    const results = { at, machine: machine(), settings, load, client, lines, rounds: all }
    writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`)
    say(`\nwritten to ${file}`)
    if (options.table !== null) writeTable(options.table, results)
    if (options.plot !== null) writePlots(options.plot, results)
    if (options.costs !== null) writeCosts(options.costs, results)
    const main = subjects[0]!.server.name
    const failed = lines.filter(({ server, failure }) => server === main && failure !== null)
    if (failed.length > 0) {
      say(`FAILED: ${failed.map(({ scenario }) => scenario).join(', ')}`)
      process.exitCode = 1
    }
  } finally {
    await stop()
  }
}

/** The measured servers: the build, and its opponents by --store, --apart and the numbers of processes. */
function measuredKinds(
  { apart, counts, database }: Options,
  given: { app?: string; env?: { [name: string]: string } },
): Kind[] {
  if (counts !== null) {
    const store = { database: database ?? (counts.resources > 1 ? ('postgres' as const) : null) }
    return [
      weftApart({ ...given, ...store, counts, name: 'several' }),
      weftApart({ ...given, ...store, counts: { ...ONE_EACH, pools: Math.min(1, counts.pools) }, name: 'one-each' }),
    ]
  }
  if (apart) return [weftApart({ ...given, database })]
  return database === null ? [weft(given)] : [weft(given), weft({ ...given, database, name: database })]
}

/** A server that slows down as its data grows starts empty for each scenario. */
async function renew(subject: Subject): Promise<void> {
  if (!subject.server.restless || subject.kind === null) return
  await subject.server.stop()
  subject.server = await subject.kind.start()
}

/** Measures the servers in turn, round by round, so that other load of the machine affects all of them. */
async function alternate(
  scenario: Scenario,
  subjects: readonly Subject[],
  options: Options,
  python: string | null,
): Promise<Measured[]> {
  const measureKind = python === null ? undefined : measurePythonLimit.bind(null, python)
  const all: Measured[] = []
  const servers = subjects.map(({ server }) => server)
  for (let round = 0; round < (scenario.once ? 1 : options.rounds); round++) {
    for (const subject of subjects) {
      if (scenario.once && subject.server.restless) continue
      if (all.some(({ server, failure }) => server === subject.server.name && failure !== undefined)) continue
      giveTurn(subject.server, servers)
      all.push(await undisturbed(options, () => measure(scenario, subject, options, round)))
    }
    giveTurn(null, servers)
    if (options.peers.includes('host')) {
      const app = python === null ? benchApp : pythonApp
      const host = await undisturbed(options, () => measureInHost(scenario, { ...options, python, app }, round))
      if (host !== null) all.push(host)
    }
    if (!options.peers.includes('in-process')) continue
    const limit = await undisturbed(options, () => measureInProcess(scenario, options, round, measureKind))
    if (limit !== null) all.push(limit)
  }
  return all
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof UserError)) throw error
  process.stderr.write(`bench: ${error.message}\n`)
  process.exitCode = error.exitCode
}
