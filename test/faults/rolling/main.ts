/**
 * `scripts/rolling-upgrade`: goes from the last release to this build, and back, in a cluster on three machines, one process
 * after the other, while clients work. Exit code 1 when a request failed, a run did not succeed, or an event is missing.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findNatsServer } from '../../../cli/nats/server.js'
import { root } from '../../../cli/root.js'
import { UserError } from '../../../cli/user-error.js'
import { isForeign } from '../../../scripts/checks/foreign-settings.js'
import { findPostgres } from '../../../scripts/postgres/server.js'
import { hasBalancer } from '../../helpers/balancers.js'
import { earlierCommit, installPackage, packageOf } from '../../helpers/earlier-release.js'
import { until } from '../../helpers/until.js'
import { finalStatuses } from '../load.js'
import { type Clients, openClients } from './clients.js'
import { type Cluster, startCluster, type Version, versionOf } from './cluster.js'
import { enterNamespaces, isInside, whyNoNamespaces } from './network.js'

const HELP = `scripts/rolling-upgrade [--from last | same | package] [--back] [--minutes n]

Starts a cluster on three machines, which are network namespaces: three NATS servers, resource workers, graph workers, a deploy
worker, and edges behind HAProxy, on PostgreSQL. Clients create threads and runs and read streams while every process is
replaced, one after the other. Prints what clients saw. Exit code 1: a request failed, a run did not succeed, an event is
missing, or it took longer than --minutes (30). Needs root, ip, unshare, haproxy and PostgreSQL.

--from   what is replaced by this build: the last release (last, which is the default; it is built from its commit),
         this build (same), or the file of a package (weft-server-0.2.0.tgz), whose npm packages are installed.
--back   afterwards every role goes back, the resource workers unless the schema of the store is a newer one.
`

const OWN = join(root, 'dist/cli/weft.js')
const CALLERS = 3
/** Streams of 6 s, which a worker that stops finishes, and of 25 s, which an edge cuts and another graph worker goes on with. */
const STREAMS = [150, 150, 625, 625, 625, 625].map(count => ({ count, delay_ms: 40 }))
/** Runs that were accepted after a process was replaced, before the next one is. */
const RUNS_BETWEEN = 20

/** For the process inside of the namespaces: the command `weft` of the version that is replaced. */
const FROM = 'WEFT_ROLLING_FROM'

async function main(): Promise<number> {
  const options = readOptions()
  if (options === null) {
    process.stdout.write(HELP)
    return 0
  }
  if (isInside()) return rolling(options, process.env[FROM]!)
  const missing =
    whyNoNamespaces() ?? (hasBalancer('haproxy') ? null : 'haproxy is not installed (apt-get install haproxy)')
  if (missing !== null) throw new UserError(missing, 2)
  findPostgres({ own: true })
  const folder = mkdtempSync(join(tmpdir(), 'rolling-from-'))
  try {
    // Inside there is no network to download it from.
    return await enterNamespaces({
      [FROM]: await programOf(options.from, folder),
      WEFT_NATS_SERVER: await findNatsServer(),
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Options {
  from: string
  back: boolean
  minutes: number
}

function readOptions(): Options | null {
  const { values } = parseArgs({
    options: {
      from: { type: 'string', default: 'last' },
      back: { type: 'boolean', default: false },
      minutes: { type: 'string', default: '30' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return null
  const { from, back } = values
  const minutes = Number(values.minutes)
  if (!(minutes > 0)) throw new UserError(`--minutes ${values.minutes}: expected a number above 0`, 2)
  if (from !== 'last' && from !== 'same' && !existsSync(from))
    throw new UserError(`--from ${from}: expected last, same or the file of a package`, 2)
  return { from, back, minutes }
}

/** The command `weft` of what is replaced. */
async function programOf(from: string, folder: string): Promise<string> {
  if (from === 'same') return OWN
  if (from !== 'last') return installPackage(resolve(from), folder)
  const commit = await earlierCommit('cluster')
  if (commit === null)
    throw new UserError(
      'this clone does not have the commit of the last release: git fetch --unshallow --tags, or --from its package',
      2,
    )
  say(`building the last release from ${commit.slice(0, 8)}`)
  return packageOf(commit, folder)
}

async function rolling({ back, minutes }: Options, program: string): Promise<number> {
  for (const name of Object.keys(process.env))
    if (isForeign(name) && name !== 'WEFT_NATS_SERVER') delete process.env[name]
  const logs = join(root, '.faults/rolling')
  rmSync(logs, { recursive: true, force: true })
  const stopped = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => reject(new UserError(`stopped by ${signal}`, 130)))
    sleep(minutes * 60_000, undefined, { ref: false }).then(() =>
      reject(new UserError(`not done after ${minutes} minutes (--minutes)`)),
    )
  })
  stopped.catch(() => {})
  const [from, to] = [await versionOf(program), await versionOf(OWN)]
  const starting = startCluster(logs, from)
  try {
    const cluster = await Promise.race([starting, stopped])
    const faults = await Promise.race([replaceAll(cluster, to, back ? from : null), stopped])
    for (const fault of faults) say(fault)
    say(faults.length === 0 ? 'no request failed' : `the logs are in ${relative(process.cwd(), logs)}`)
    return faults.length === 0 ? 0 : 1
  } finally {
    await (await starting.catch(() => null))?.stop()
  }
}

/** Resolves with what went wrong. `back`: the version to which the roles go back. */
async function replaceAll({ balancer, parts }: Cluster, to: Version, back: Version | null): Promise<string[]> {
  const clients = openClients(balancer.url)
  const { tally, runs } = clients
  const faults: string[] = []
  clients.call(CALLERS)
  const streams = readStreams(clients)
  const more = () => {
    const enough = runs.length + RUNS_BETWEEN
    return until(() => runs.length >= enough)
  }
  row('replaced', 'requests', 'failed', 'slowest', 'resumed', 'seconds')
  /** The figures of clients since the last row. */
  const measure = async (name: string, step: () => Promise<unknown>) => {
    const before = { ...tally, failed: tally.failed.length, slow: tally.slow.length }
    const since = performance.now()
    tally.slowest = 0
    await step()
    const failed = tally.failed.slice(before.failed)
    faults.push(...failed.map(why => `${name}: ${why}`))
    const figures = [tally.requests - before.requests, failed.length, `${(tally.slowest / 1_000).toFixed(1)} s`]
    row(name, ...figures, tally.resumed - before.resumed, Math.round((performance.now() - since) / 1_000))
    for (const one of tally.slow.slice(before.slow)) say(`  ${new Date().toISOString()} ${one}`)
  }
  await measure('nothing', more)
  for (const { name, replace } of parts) await measure(name, () => replace(to).then(more))
  if (back !== null)
    for (const { name, role, replace } of parts.filter(one => one.role !== 'nats').reverse())
      await measure(`${name} back`, async () => {
        if (role === 'resources') await replace(back).catch(sayRefusal)
        else await replace(back)
        await more()
      })
  await measure('the end', async () => {
    await clients.stop()
    await streams.stop()
  })
  const statuses = await finalStatuses(balancer.url, runs)
  const unsuccessful = statuses.filter(status => status !== 'success')
  row('all', tally.requests, tally.failed.length, '', tally.resumed, '')
  say(`${runs.length} runs were accepted, ${unsuccessful.length} did not succeed`)
  say(`${streams.read()} streams were read, ${tally.resumed} times resumed; ${streams.missing()} events are missing`)
  if (unsuccessful.length > 0) faults.push(`${unsuccessful.length} runs did not succeed: ${[...new Set(unsuccessful)]}`)
  return [...faults, ...streams.faults]
}

/** Reads one stream of each kind after the other. */
function readStreams(clients: Clients) {
  const faults: string[] = []
  let on = true
  let read = 0
  let missing = 0
  const ended = Promise.all(
    STREAMS.map(async options => {
      while (on)
        try {
          const { ids, chunks } = await clients.stream(options)
          read++
          const absent = options.count - new Set(chunks).size
          missing += absent
          if (absent > 0) faults.push(`a stream ended without ${absent} of ${options.count} chunks`)
          if (ids.some((id, i) => i > 0 && id <= ids[i - 1]!)) faults.push('a stream had an event twice')
        } catch (error) {
          missing++
          faults.push(`a stream ended early: ${(error as Error).message}`)
        }
    }),
  )
  return {
    faults,
    read: () => read,
    missing: () => missing,
    async stop() {
      on = false
      await ended
    },
  }
}

/** The store of this build may have a newer schema: the resource worker that is replaced stays then. */
function sayRefusal({ message }: Error): void {
  const why = /The database has schema version.*newer Weft/.exec(message)?.[0]
  if (why === undefined) throw new Error(message)
  say(`  refused: ${why}`)
}

const say = (line: string) => process.stdout.write(`${line}\n`)
const row = (name: string, ...figures: (string | number)[]) =>
  say(name.padEnd(16) + figures.map(figure => `${figure}`.padStart(10)).join(''))

try {
  process.exit(await main())
} catch (error) {
  process.stderr.write(`rolling-upgrade: ${(error as Error).message}\n`)
  process.exit(error instanceof UserError ? error.exitCode : 1)
}
