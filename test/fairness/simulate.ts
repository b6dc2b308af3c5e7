/** A pool of slots that runs of several tenants wait for, event by event, without a clock. Times are in seconds. */
import TinyQueue from 'tinyqueue'
import { type Random, randomOf } from '../faults/harness/random.js'
import type { Policy, Run } from './policies.js'

export interface Waits {
  group: string
  runs: number
  mean: number
  p50: number
  p99: number
  longest: number
  /** The longest wait of a tenant's first run. */
  first: number
  /** The part of all slots that the group had, from the first run to the last one that was accepted. */
  share: number
}

/** Gives every run to the policy when it is accepted, and every free slot to the run that the policy names. */
export function simulate(runs: readonly Run[], slots: number, policy: Policy): Waits[] {
  const started = new Float64Array(runs.length).fill(Number.NaN)
  const ends = new TinyQueue<{ at: number; run: Run }>([], (a, b) => a.at - b.at || a.run.no - b.run.no)
  let free = slots
  const fill = (now: number) => {
    while (free > 0) {
      const run = policy.next()
      if (!run) return
      if (!Number.isNaN(started[run.no]!)) throw new Error(`${policy.name} started run ${run.no} twice`)
      free--
      started[run.no] = now
      ends.push({ at: now + run.takes, run })
    }
  }
  for (let i = 0; i < runs.length || ends.length > 0; ) {
    const ended = ends.peek()
    if (i < runs.length && (!ended || runs[i]!.at <= ended.at)) {
      policy.wait(runs[i]!)
      fill(runs[i++]!.at)
    } else {
      const { at, run } = ends.pop()!
      free++
      policy.end(run)
      fill(at)
    }
  }
  return waitsOf(runs, started, slots)
}

function waitsOf(runs: readonly Run[], started: Float64Array, slots: number): Waits[] {
  const until = runs.at(-1)!.at
  const groups = new Map<string, { waits: number[]; firsts: Map<string, number>; busy: number }>()
  for (const run of runs) {
    const at = started[run.no]!
    if (Number.isNaN(at)) throw new Error(`run ${run.no} of ${run.tenant} never started`)
    let group = groups.get(run.group)
    if (!group) groups.set(run.group, (group = { waits: [], firsts: new Map(), busy: 0 }))
    group.waits.push(at - run.at)
    if (!group.firsts.has(run.tenant)) group.firsts.set(run.tenant, at - run.at)
    group.busy += Math.max(0, Math.min(until, at + run.takes) - at)
  }
  return [...groups].map(([group, { waits, firsts, busy }]) => {
    waits.sort((a, b) => a - b)
    const part = (of: number) => waits[Math.min(waits.length - 1, Math.floor(waits.length * of))]!
    return {
      group,
      runs: waits.length,
      mean: waits.reduce((sum, wait) => sum + wait, 0) / waits.length,
      p50: part(0.5),
      p99: part(0.99),
      longest: waits.at(-1)!,
      first: Math.max(...firsts.values()),
      share: busy / (until * slots),
    }
  })
}

/**
 * 100,000 runs within 900 s, which need a tenth more than 100 slots: a tenant that sends 10,000 runs at once, one whose runs
 * take 30 s, one of weight 4, twenty with a steady stream of which two have priority, and 2,000 that send one run each. `scale`
 * shortens the time and with it the number of runs.
 */
export function workload(seed: number, scale = 1): Run[] {
  const random = randomOf(seed)
  const runs: Omit<Run, 'no'>[] = []
  const lasts = 900 * scale
  const add = (group: string, tenant: string, count: number, takes: number, at: (i: number) => number, more = {}) => {
    for (let i = 0; i < Math.round(count * scale); i++)
      runs.push({ group, tenant, weight: 1, priority: 0, at: at(i), takes: exponential(random, takes), ...more })
  }
  const anywhere = () => random.next() * lasts
  add('flood', 'flood', 10_000, 1, () => lasts / 10)
  add('long', 'long', 1_000, 30, anywhere)
  add('weight 4', 'heavy', 27_000, 1, anywhere, { weight: 4 })
  for (let i = 0; i < 20; i++) add('steady', `steady ${i}`, 3_000, 0.5, anywhere, { priority: i < 2 ? 1 : 0 })
  const single = Math.round(2_000 * scale)
  for (let i = 0; i < single; i++)
    runs.push({ group: 'single', tenant: `single ${i}`, weight: 1, priority: 0, at: anywhere(), takes: 1 })
  return runs.sort((a, b) => a.at - b.at).map((run, no) => ({ ...run, no }))
}

const exponential = (random: Random, mean: number) => -mean * Math.log(1 - random.next())
