/** The settings of an operator applied to one run: its tenant, its priority, the limits that count it. */
import { createHash } from 'node:crypto'
import type { Scheduling } from '../../../schemas/auth/scheduling.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { isObject } from '../../../schemas/json.js'
import type { LimitKind } from '../../../schemas/runs.js'
import type { OccupiedSlots, RunRow } from '../../../store/rows/runs.js'
import { type Pace, paceOf } from './pace.js'

const MAX_TENANT = 256
const [FIRST, LAST] = [-5, 5]

type New = Pick<RunRow, 'metadata' | 'key_id' | 'graph_id' | 'assistant_id' | 'auth_user'>

/** The tenant of a new run; '' for all that name none. A long name is replaced by its hash. */
export function tenantOf({ tenant }: Scheduling, run: New): string {
  if (tenant === undefined) return ''
  if (tenant === 'key') return run.key_id ?? ''
  const found =
    tenant === 'user'
      ? run.auth_user === null
        ? undefined
        : (parseJson(run.auth_user) as { identity?: unknown }).identity
      : valueAt(run.metadata, tenant)
  if (found === undefined || found === null) return ''
  const text = (typeof found === 'object' ? jsonText(found) : String(found)).toWellFormed().replaceAll('\0', '')
  return text.length <= MAX_TENANT ? text : createHash('sha256').update(text).digest('hex')
}

/** The priority of a new run. Throws invalid when its metadata hold another value than a whole number from −5 to 5. */
export function priorityOf({ priority = {} }: Scheduling, run: New): number {
  const own = priority.run === undefined ? undefined : valueAt(run.metadata, priority.run)
  if (own !== undefined && own !== null) {
    if (typeof own === 'number' && Number.isInteger(own) && own >= FIRST && own <= LAST) return own
    throw fail('invalid', `${priority.run}: expected a whole number from ${FIRST} (first) to ${LAST} (last)`)
  }
  return named(priority.assistants, run.assistant_id) ?? named(priority.graphs, run.graph_id) ?? 0
}

export const weightOf = ({ weights }: Scheduling, tenant: string): number => named(weights, tenant) ?? 1

/** Null: any number of its runs may start. */
export function rateOf({ rates = {} }: Scheduling, tenant: string): Pace | null {
  const rate = named(rates.tenants, tenant) ?? rates.tenant
  return rate === undefined ? null : paceOf(rate)
}

export interface Limit {
  of: LimitKind
  most: number
  counts(other: Omit<OccupiedSlots, 'count'>): boolean
}

/** Each limit that counts the run: how many may execute, and which of the running ones it counts. */
export function limitsOf(
  { limits = {} }: Scheduling,
  { tenant, graph_id, assistant_id, key_id }: Pick<RunRow, 'tenant' | 'graph_id' | 'assistant_id' | 'key_id'>,
): Limit[] {
  const found: Limit[] = []
  const add = (of: LimitKind, most: number | undefined, counts: Limit['counts']) => {
    if (most !== undefined) found.push({ of, most, counts })
  }
  add('tenant', named(limits.tenants, tenant ?? '') ?? limits.tenant, other => (other.tenant ?? '') === (tenant ?? ''))
  add('graph', named(limits.graphs, graph_id), other => other.graph_id === graph_id)
  add('assistant', named(limits.assistants, assistant_id), other => other.assistant_id === assistant_id)
  if (key_id !== null) add('key', named(limits.keys, key_id) ?? limits.key, other => other.key_id === key_id)
  return found
}

/** An own property alone: a tenant may be named `constructor`. */
function named<T>(table: { [name: string]: T } | undefined, name: string): T | undefined {
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined
}

function valueAt(metadata: string, path: string): unknown {
  let value: unknown = parseJson(metadata)
  for (const key of path.split('.').slice(1))
    value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  return value
}
