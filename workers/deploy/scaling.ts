/**
 * How many replicas a revision should have (docs/spec/control-plane.md#scaling). One replica for each `runs_each` runs
 * that are queued or executed, within the limits of resource_spec. It increases at once; it decreases to the greatest
 * number that was wanted within `down_ms`, so that a load that comes and goes does not start and stop replicas. Pure.
 */
import type { ResourceSpec } from '../../schemas/deployments.js'

/** Replicas of graph workers: `queue_*` counts, with the members without the prefix as defaults. */
export interface Range {
  min: number
  max: number
}

export function rangeOf(spec: ResourceSpec | null): Range {
  const min = spec?.queue_min_scale ?? spec?.min_scale ?? 1
  // The first run must find a worker at some time.
  return { min, max: Math.max(1, min, spec?.queue_max_scale ?? spec?.max_scale ?? min) }
}

/** False: the number of replicas is fixed. */
export const isScaled = ({ min, max }: Range): boolean => max > min

export const within = ({ min, max }: Range, n: number): number => Math.min(max, Math.max(min, n))

export interface ScaleRules {
  runs_each: number
  down_ms: number
}

export interface Scale {
  /** The number of replicas for this many runs at this time. Times must not decrease. */
  observe(runs: number, now: number): number
}

/** `present`: replicas that run already; they count as wanted at `since`. */
export function openScale({ runs_each, down_ms }: ScaleRules, range: Range, present: number, since: number): Scale {
  /** The wanted numbers and their times. Numbers decrease and times increase, so the first number is the greatest. */
  const wanted = [{ n: present, at: since }]
  return {
    observe(runs, now) {
      const n = Math.ceil(runs / runs_each)
      while (wanted.length > 0 && wanted.at(-1)!.n <= n) wanted.pop()
      wanted.push({ n, at: now })
      while (wanted[0]!.at + down_ms <= now && wanted.length > 1) wanted.shift()
      return within(range, wanted[0]!.n)
    },
  }
}
