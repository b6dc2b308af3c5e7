/** How waiting runs share the slots of their pool: the form of `WEFT_SCHEDULING` (decision 110). */
import { readFileSync } from 'node:fs'
import typia, { type tags } from 'typia'
import { parseJson } from '../exact.js'
import { readable } from '../problems.js'

/** A value of the metadata of a run: `metadata.` and the keys that lead to it. */
type MetadataPath = string & tags.Pattern<'^metadata(\\.[^.]+)+$'>
type Priority = number & tags.Type<'int32'> & tags.Minimum<-5> & tags.Maximum<5>
type Limit = number & tags.Type<'uint32'> & tags.Minimum<1>

/** How many runs may start in a time. */
export interface Rate {
  max: number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000000>
  /** A whole number of seconds, minutes or hours. */
  per: string & tags.Pattern<'^[1-9][0-9]{0,3}[smh]$'>
  /** How many of them may start at once after a rest; 1 when absent. */
  burst?: Limit
}

export interface Scheduling {
  /** Whose runs share the slots: the caller's identity, the key, or a value of the metadata. Absent: all runs are of one tenant. */
  tenant?: 'user' | 'key' | MetadataPath
  /** The share of a tenant beside that of others, which is 1. */
  weights?: { [tenant: string]: number & tags.ExclusiveMinimum<0> }
  /** −5 runs first, 5 runs last. The metadata of a run come before its assistant, and that before its graph. */
  priority?: {
    run?: MetadataPath
    assistants?: { [assistant_id: string]: Priority }
    graphs?: { [graph_id: string]: Priority }
  }
  /** How many runs execute at the same time at most; further ones wait. */
  limits?: {
    /** The limit of each tenant that `tenants` does not name. */
    tenant?: Limit
    tenants?: { [tenant: string]: Limit }
    graphs?: { [graph_id: string]: Limit }
    assistants?: { [assistant_id: string]: Limit }
    /** The limit of each key that `keys` does not name. */
    key?: Limit
    keys?: { [key_id: string]: Limit }
  }
  /** How many runs of a tenant may start in a time; further ones wait. */
  rates?: {
    /** The rate of each tenant that `tenants` does not name. */
    tenant?: Rate
    tenants?: { [tenant: string]: Rate }
  }
}

const validate = typia.createValidateEquals<Scheduling>()

/** Reads `WEFT_SCHEDULING`: JSON, or the path of a file with JSON. Null: it is empty. Throws one sentence when it is wrong. */
export function readScheduling(setting: string): Scheduling | null {
  if (setting.trim() === '') return null
  const isText = setting.trimStart().startsWith('{')
  let value: unknown
  try {
    value = parseJson(isText ? setting : readFileSync(setting, 'utf8'))
  } catch (error) {
    const where = isText ? 'the value' : `the file ${setting}`
    throw new RangeError(
      `WEFT_SCHEDULING must be JSON or the path of a JSON file, but ${where} cannot be read: ${(error as Error).message}`,
    )
  }
  const checked = validate(value)
  if (!checked.success) {
    const { path, expected } = checked.errors[0]!
    const where = path.replace('$input', '').replace(/^\./, '') || 'the value'
    throw new RangeError(`WEFT_SCHEDULING: ${where}: expected ${expectedAt(where) ?? readable(expected)}`)
  }
  const { tenant, tenants = {} } = checked.data.rates ?? {}
  checkBurst('rates.tenant', tenant)
  for (const [name, rate] of Object.entries(tenants)) checkBurst(`rates.tenants.${name}`, rate)
  return checked.data
}

function checkBurst(where: string, rate: Rate | undefined): void {
  if (rate?.burst !== undefined && rate.burst > rate.max)
    throw new RangeError(`WEFT_SCHEDULING: ${where}.burst: expected at most its max, ${rate.max}`)
}

const PER = /^rates\..*[.\]]per$/
const expectedAt = (where: string): string | undefined =>
  PER.test(where) ? 'a time as "1s", "5m" or "24h"' : EXPECTED[where]

const EXPECTED: { [path: string]: string | undefined } = {
  tenant: '"user", "key" or a path as "metadata.team"',
  'priority.run': 'a path as "metadata.urgency"',
}
