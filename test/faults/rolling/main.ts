/**
 * `scripts/rolling-upgrade`: replaces every process of a cluster on three machines, one after the other, while clients work.
 * Exit code 1 when a request failed, a run did not succeed, or an event is missing.
 */
import { rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findNatsServer } from '../../../cli/nats/server.js'
import { root } from '../../../cli/root.js'
import { UserError } from '../../../cli/user-error.js'
import { isForeign } from '../../../scripts/checks/foreign-settings.js'
import { findPostgres } from '../../../scripts/postgres/server.js'
import { hasBalancer } from '../../helpers/balancers.js'
import { until } from '../../helpers/until.js'
import { finalStatuses } from '../load.js'
import { type Clients, openClients } from './clients.js'
import { type Cluster, startCluster } from './cluster.js'
import { enterNamespaces, isInside, whyNoNamespaces } from './network.js'

const HELP = `scripts/rolling-upgrade [--minutes n]

Starts a cluster on three machines, which are network namespaces: three NATS servers, resource workers, graph workers, a deploy
worker, and edges behind HAProxy, on PostgreSQL. Clients create threads and runs and read streams while every process is
replaced, one after the other. Prints what clients saw. Exit code 1: a request failed, a run did not succeed, an event is
missing, or it took longer than --minutes (15). Needs root, ip, unshare, haproxy and PostgreSQL.
`

const CALLERS = 3
/** Streams of 6 s, which a worker that stops finishes, and of 25 s, which an edge cuts and another graph worker goes on with. */
const STREAMS = [150, 150, 625, 625, 625, 625].map(count => ({ count, delay_ms: 40 }))
/** Runs that were accepted after a process was replaced, before the next one is. */
const RUNS_BETWEEN = 20

async function main(): Promise<number> {
  const minutes = minutesOf()
  if (minutes === null) {
    process.stdout.write(HELP)
    return 0
  }
  if (isInside()) return rolling(minutes)
  const missing =
    whyNoNamespaces() ?? (hasBalancer('haproxy') ? null : 'haproxy is not installed (apt-get install haproxy)')
  if (missing !== null) throw new UserError(missing, 2)
  findPostgres({ own: true })
  // Inside there is no network to download it from.
  return enterNamespaces({ WEFT_NATS_SERVER: await findNatsServer() })
}

function minutesOf(): number | null {
  const options = { minutes: { type: 'string', default: '15' }, help: { type: 'boolean', short: 'h' } } as const
  const { values } = parseArgs({ options })
  if (values.help) return null
  const minutes = Number(values.minutes)
  if (!(minutes > 0)) throw new UserError(`--minutes ${values.minutes}: expected a number above 0`, 2)
  return minutes
}

async function rolling(minutes: number): Promise<number> {
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
  const starting = startCluster(logs)
  try {
    const cluster = await Promise.race([starting, stopped])
    const faults = await Promise.race([replaceAll(cluster), stopped])
    for (const fault of faults) say(fault)
    say(faults.length === 0 ? 'no request failed' : `the logs are in ${relative(process.cwd(), logs)}`)
    return faults.length === 0 ? 0 : 1
  } finally {
    await (await starting.catch(() => null))?.stop()
  }
}

/** Resolves with what went wrong. */
async function replaceAll({ balancer, parts }: Cluster): Promise<string[]> {
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
  for (const { name, replace } of parts) await measure(name, () => replace().then(more))
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

const say = (line: string) => process.stdout.write(`${line}\n`)
const row = (name: string, ...figures: (string | number)[]) =>
  say(name.padEnd(16) + figures.map(figure => `${figure}`.padStart(10)).join(''))

try {
  process.exit(await main())
} catch (error) {
  process.stderr.write(`rolling-upgrade: ${(error as Error).message}\n`)
  process.exit(error instanceof UserError ? error.exitCode : 1)
}
