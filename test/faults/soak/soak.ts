/**
 * A mixed load on real processes for many minutes, with one fault a minute: what it costs the promises, and whether memory,
 * descriptors, disk or latency grow.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { controlOf, deployEnv } from '../../deploy/control.js'
import { application, graphFile, makeRepository, sourcesFolder } from '../../deploy/repository.js'
import { allGone, startRoles } from '../../helpers/cluster.js'
import { until } from '../../helpers/until.js'
import { openLedger, quantile } from '../harness/ledger.js'
import { randomOf } from '../harness/random.js'
import { startLoads } from './loads.js'
import { FAULTS } from './nemesis.js'
import { rolesIn, type Sample, type SoakRole, sampleOf, type Trend, trendOf } from './samples.js'

export interface SoakOptions {
  minutes: number
  seed: number
  log: (line: string) => void
}

export interface SoakResult {
  minutes: number
  seed: number
  faults: { at: number; name: string }[]
  calls: { ok: number; refused: number; unknown: number }
  kept: { runs: number; ended: { [status: string]: number } }
  streams: { ended: number; refused: number; broken: number }
  deployed: { answers: number; cutovers: number; failed: number }
  crons: { fired: number; late_s: number }
  memory: { [role in SoakRole]?: Trend }
  files: { [role in SoakRole]?: Trend }
  /** p99 of short runs by half minute: [minute, ms]. */
  latency: [number, number][]
  samples: Sample[]
  /** Promises that fell short. */
  short: string[]
}

const SAMPLE_MS = 5_000
const WINDOW_MIN = 0.5
const CRONS = 5
const SETTLE_MS = 180_000
/** A call that a fault refuses is repeated. */
const CUT_OVER_MS = 60_000
/** Growth of one process, after its first ten minutes. */
const MOST_MB_PER_MINUTE = 2
const MOST_FILES_PER_MINUTE = 1
const WARM_MIN = 10
/** Replicas live for a minute, hosts of theirs too. */
const SHORT_LIVED: readonly SoakRole[] = ['replica']
const EXPECTED = [0, 408, 429, 503]

export async function soak({ minutes, seed, log }: SoakOptions): Promise<SoakResult> {
  const random = randomOf(seed)
  const { folder, remove } = sourcesFolder()
  const env = { ...deployEnv(folder), WEFT_CRON_SECONDS: '1' }
  const roles = await startRoles({ app: 'test/apps/basic', edges: 2, graphs: 2, env })
  await roles.add('deployer')
  const ledger = openLedger(join(folder, 'ledger.jsonl'))
  const short: string[] = []
  const seen = new Set<number>()
  const samples: Sample[] = []
  const faults: { at: number; name: string }[] = []
  let cutovers = 0
  let failed = 0
  try {
    const control = () => controlOf(roles.urls[0]!)
    const repository = makeRepository(folder, 'app', application('v0'))
    const made = await control().create('soak', repository.url)
    await control().deployed(made)
    const path = new URL(control().urlOf(made)).pathname
    for (let i = 0; i < CRONS; i++) {
      const body = { assistant_id: 'echo', schedule: `${i}-59/5 * * * * *`, input: { text: 'cron' } }
      const { outcome } = await ledger.call({ url: roles.urls[0]!, path: '/runs/crons', body })
      if (outcome !== 'ok') short.push('a cron was refused')
    }
    const loads = startLoads({ ledger, urls: () => roles.urls, deployment: () => roles.urls[0]! + path })
    const begun = performance.now()
    const minute = () => (performance.now() - begun) / 60_000
    const sampler = setInterval(() => {
      const sample = sampleOf(minute(), roles)
      samples.push(sample)
      for (const { pid } of sample.processes) seen.add(pid)
    }, SAMPLE_MS)
    const cutOver = async (n: number) => {
      repository.commit({ 'graph.mjs': graphFile(`v${n}`) })
      const changed = await until(
        () =>
          control()
            .again(made.id)
            .catch(() => undefined),
        CUT_OVER_MS,
      )
      const { status } = await until(
        () =>
          control()
            .over(changed)
            .catch(() => undefined),
        CUT_OVER_MS,
      )
      if (status === 'DEPLOYED') cutovers++
      else throw new Error(status)
    }
    let queue: (typeof FAULTS)[number][] = []
    let cutting: Promise<void> = Promise.resolve()
    let isCutting = false
    for (let n = 1; n <= minutes; n++) {
      // All kinds, in a random order, before one comes again.
      if (queue.length === 0) queue = shuffled(FAULTS, random.next)
      const fault = queue.pop()!
      await sleep(Math.max(0, (n - 1) * 60_000 + 30_000 - (performance.now() - begun)))
      log(`minute ${minute().toFixed(1)}: ${fault.name}`)
      faults.push({ at: minute(), name: fault.name })
      if (!isCutting) {
        isCutting = true
        cutting = cutOver(n)
          .catch(error => {
            failed++
            log(`  cutover: ${(error as Error).message}`)
          })
          .finally(() => (isCutting = false))
      }
      await fault.inject(roles)
      await sleep(Math.max(0, n * 60_000 - (performance.now() - begun)))
    }
    await loads.stop()
    clearInterval(sampler)
    await cutting
    log(`${loads.kept.length} runs to settle`)
    const kept = await settle(ledger, roles.urls[0]!, loads.kept)
    const crons = await cronsOf(ledger, roles.urls[0]!)
    const result: SoakResult = {
      minutes,
      seed,
      faults,
      calls: { ok: ledger.count('ok'), refused: ledger.count('fail'), unknown: ledger.count('unknown') },
      kept: { runs: loads.kept.length, ended: kept },
      streams: loads.streams,
      deployed: { answers: loads.deployed.answers, cutovers, failed },
      crons,
      memory: {},
      files: {},
      latency: windows(loads.short, begun),
      samples,
      short,
    }
    const warm = Math.min(WARM_MIN, minutes / 3)
    for (const role of rolesIn(samples).filter(one => !SHORT_LIVED.includes(one))) {
      const memory = (result.memory[role] = trendOf(samples, role, 'mb', warm))
      const files = (result.files[role] = trendOf(samples, role, 'files', warm))
      if (memory.slope > MOST_MB_PER_MINUTE)
        short.push(`memory of ${role} grows by ${memory.slope.toFixed(1)} MB a minute`)
      if (files.slope > MOST_FILES_PER_MINUTE)
        short.push(`${role} opens ${files.slope.toFixed(1)} descriptors a minute`)
    }
    const others = Object.entries(kept).filter(([status]) => status !== 'success')
    for (const [status, count] of others) short.push(`${count} of ${loads.kept.length} accepted runs are ${status}`)
    for (const [text, count] of counted(loads.wrong)) short.push(count === 1 ? text : `${text} (${count} times)`)
    const strange = [...ledger.refused()].filter(status => !EXPECTED.includes(status))
    if (strange.length > 0) short.push(`calls were answered with ${strange.join(', ')}`)
    if (crons.late_s > 15) short.push(`a cron did not fire for ${Math.round(crons.late_s)} s`)
    if (cutovers === 0) short.push('no cutover succeeded')
    return result
  } finally {
    await roles.stop()
    await allGone([...seen]).catch(error => short.push((error as Error).message))
    rmSync(folder, { recursive: true, force: true })
    remove()
  }
}

function shuffled<T>(all: readonly T[], next: () => number): T[] {
  const rest = [...all]
  return Array.from(all, () => rest.splice(Math.floor(next() * rest.length), 1)[0]!)
}

type Ledger = ReturnType<typeof openLedger>

/** Statuses of the runs when all have ended, or after three minutes. */
async function settle(ledger: Ledger, url: string, runs: readonly { thread_id: string; run_id: string }[]) {
  const ended: { [status: string]: number } = {}
  let left = [...runs]
  const look = async () => {
    const open: typeof left = []
    for (const run of left) {
      const path = `/threads/${run.thread_id}/runs/${run.run_id}`
      const { body } = await ledger.call<{ status: string }>({ url, method: 'GET', path })
      const status = body?.status ?? 'unknown'
      if (['pending', 'running', 'unknown'].includes(status)) open.push(run)
      else ended[status] = (ended[status] ?? 0) + 1
    }
    left = open
    return left.length === 0
  }
  await until(look, SETTLE_MS).catch(() => (ended['not ended'] = left.length))
  return ended
}

/** Runs that the crons have made, and the longest time since a cron fired last. */
async function cronsOf(ledger: Ledger, url: string) {
  const { body: crons = [] } = await ledger.call<{ cron_id: string }[]>({ url, path: '/runs/crons/search', body: {} })
  let fired = 0
  let late_s = 0
  for (const { cron_id } of crons) {
    const path = `/runs/crons/${cron_id}/firings`
    const { body } = await ledger.call<{ fired_at: string }[]>({ url, method: 'GET', path })
    const times = (body ?? []).map(({ fired_at }) => Date.parse(fired_at))
    fired += times.length
    late_s = Math.max(late_s, (Date.now() - Math.max(0, ...times)) / 1_000)
  }
  return { fired, late_s }
}

function windows(short: readonly { at: number; ms: number }[], begun: number): [number, number][] {
  const found = new Map<number, number[]>()
  for (const { at, ms } of short) {
    const window = Math.floor((at - begun) / 60_000 / WINDOW_MIN)
    found.set(window, [...(found.get(window) ?? []), ms])
  }
  return [...found].sort(([a], [b]) => a - b).map(([window, all]) => [(window + 0.5) * WINDOW_MIN, quantile(all, 0.99)])
}

function counted(texts: readonly string[]): Map<string, number> {
  const found = new Map<string, number>()
  for (const text of texts) found.set(text, (found.get(text) ?? 0) + 1)
  return found
}
