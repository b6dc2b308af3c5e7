/** Items of the store on the wire (docs/spec/items.md): namespaced JSON objects that all threads share. */
import typia, { type tags } from 'typia'
import { fail } from '../errors.js'
import type { JsonObject } from '../json.js'

type Offset = number & tags.Type<'uint32'>
type Limit = number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>
/** Minutes; fractions are allowed. */
type Minutes = number & tags.ExclusiveMinimum<0>

export interface ItemPut {
  namespace: string[]
  key: string & tags.MinLength<1>
  value: JsonObject
  /** false: without vectors; paths: these instead of the configured ones. */
  index?: false | string[] | null
  /** null: it never expires; absent: the application's default. */
  ttl?: Minutes | null
}

export interface ItemRef {
  namespace?: string[] | null
  key: string & tags.MinLength<1>
}

export interface ItemSearch {
  namespace_prefix?: string[] | null
  filter?: JsonObject | null
  query?: string | null
  limit?: Limit | null
  offset?: Offset | null
  refresh_ttl?: boolean | null
}

export interface NamespaceSearch {
  prefix?: string[] | null
  suffix?: string[] | null
  max_depth?: (number & tags.Type<'uint32'> & tags.Minimum<1>) | null
  limit?: Limit | null
  offset?: Offset | null
}

export interface Item {
  namespace: string[]
  key: string
  value: JsonObject
  created_at: string
  updated_at: string
  score?: number | null
}

/** `store.ttl` of langgraph.json (docs/spec/application.md#store-and-checkpointer). */
export interface ItemTtlDefaults {
  /** Minutes; of new items whose writer names none. */
  default_ttl?: Minutes
  /** Whether a read starts the time of an item anew; true when absent. */
  refresh_on_read?: boolean
  /** Expired items are never answered; they are removed once a minute at any value of this. */
  sweep_interval_minutes?: Minutes
}

export const validateItemTtlDefaults = typia.createValidate<ItemTtlDefaults>()

/** `store.index` of langgraph.json, as graph workers announce it. */
export interface ItemIndexConfig {
  /** Numbers of a vector. */
  dims: number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<65536>
  /** Paths into the value; the whole value when absent. */
  fields?: (string & tags.MinLength<1>)[]
}

/** With the pool whose graph workers embed texts. */
export interface ItemIndex extends ItemIndexConfig {
  pool: string
}

/** One operation of a graph on the store. */
export type ItemOperation =
  | { op: 'get'; namespace: string[]; key: string; refresh_ttl?: boolean | null }
  | ({ op: 'put' } & ItemPut)
  | { op: 'delete'; namespace: string[]; key: string }
  | ({ op: 'search' } & ItemSearch)
  | ({ op: 'namespaces' } & NamespaceSearch)

/** The operations of one turn of a run, carried out in order. */
export interface ItemBatch {
  operations: ItemOperation[] & tags.MaxItems<10000>
}

/** get: the item or null; put and delete: null; search: items; namespaces: lists of labels. An operation may be refused. */
export type ItemAnswer = Item | null | (Item | string[])[] | { error: string }

/** The answer of a store that the application brings. `internal`: its code failed; `invalid`: it refuses the operation. */
export type StoreAnswer = Exclude<ItemAnswer, { error: string }> | { error: string; code: 'invalid' | 'internal' }

export const validateStoreAnswers = typia.createValidate<StoreAnswer[]>()
export const validateItemBatch = typia.createValidate<ItemBatch>()
export const validateItemPut = typia.createValidate<ItemPut>()
export const validateItemRef = typia.createValidate<ItemRef>()
export const validateItemSearch = typia.createValidate<ItemSearch>()
export const validateNamespaceSearch = typia.createValidate<NamespaceSearch>()

/** Matches exactly one label in `prefix` and `suffix` of a search for namespaces. */
export const ANY_LABEL = '*'
/** The first label that the store libraries reserve. */
const RESERVED = 'langgraph'
const MAX_LABELS = 100
const MAX_PATH = 4_000

/**
 * The labels of a namespace as they are stored: well-formed text without U+0000. Throws `invalid` for a label that is
 * empty or has a dot, and for a namespace that is too long (docs/spec/items.md#namespaces).
 */
export function labelsOf(member: string, namespace: readonly string[]): string[] {
  const labels = namespace.map(storable)
  for (const label of labels)
    if (label === '' || label.includes('.'))
      throw fail(
        'invalid',
        `${member}: expected labels that are not empty and have no dot, got "${label.slice(0, 80)}"`,
      )
  if (labels.length > MAX_LABELS || labels.join('.').length > MAX_PATH)
    throw fail('invalid', `${member}: expected at most ${MAX_LABELS} labels and ${MAX_PATH} characters`)
  return labels
}

/** Like `labelsOf`, for the namespace of one item: it has at least one label; a write also refuses the reserved one. */
export function namespaceOf(namespace: readonly string[] | null | undefined, use: 'read' | 'write'): string[] {
  const labels = labelsOf('namespace', namespace ?? [])
  if (labels.length === 0) throw fail('invalid', 'namespace: expected at least one label')
  if (use === 'write' && labels[0] === RESERVED)
    throw fail('invalid', `namespace: the first label "${RESERVED}" is reserved`)
  return labels
}

/** A key or label as every database can store it: lone surrogates, U+0000 and U+FFFF become U+FFFD. */
export const storable = (text: string): string => text.toWellFormed().replace(/[\0\uffff]/g, '\ufffd')

/** The key of an item as it is stored. Throws `invalid` for one that is empty or too long. */
export function itemKey(key: string): string {
  if (key === '') throw fail('invalid', 'key: expected a non-empty string')
  if (key.length > MAX_PATH) throw fail('invalid', `key: expected at most ${MAX_PATH} characters, got ${key.length}`)
  return storable(key)
}

type Scalar = string | number | bigint | boolean | null
type Compare = (stored: unknown, wanted: unknown) => boolean

/** Numbers as numbers, everything else as text, so that ISO 8601 times are ordered too; objects have no order. */
const ordered =
  (holds: (order: number) => boolean): Compare =>
  (stored, wanted) => {
    if (isNumber(stored) && isNumber(wanted)) return holds(stored < wanted ? -1 : stored > wanted ? 1 : 0)
    if (isCompound(stored) || isCompound(wanted) || stored === undefined || stored === null) return false
    const [a, b] = [String(stored as Scalar), String(wanted as Scalar)]
    return holds(a < b ? -1 : a > b ? 1 : 0)
  }

const OPERATORS: { readonly [operator: string]: Compare | undefined } = {
  __proto__: null as never,
  $eq: (stored, wanted) => equal(stored, wanted),
  $ne: (stored, wanted) => !equal(stored, wanted),
  $gt: ordered(order => order > 0),
  $gte: ordered(order => order >= 0),
  $lt: ordered(order => order < 0),
  $lte: ordered(order => order <= 0),
  $in: (stored, wanted) => (wanted as unknown[]).some(one => equal(stored, one)),
  $nin: (stored, wanted) => !(wanted as unknown[]).some(one => equal(stored, one)),
}

/**
 * The test of a filter: all of its members must hold (docs/spec/items.md#filters). A plain value means
 * deep equality; an object of operators compares. A missing member fails every operator but `$ne` and `$nin`. Throws
 * `invalid` for an unknown operator and for `$in` or `$nin` without a list.
 */
export function itemFilter(filter: JsonObject | null | undefined): (value: JsonObject) => boolean {
  const tests: ((value: JsonObject) => boolean)[] = []
  for (const [member, wanted] of Object.entries(filter ?? {})) {
    const read = (value: JsonObject) => (Object.hasOwn(value, member) ? value[member] : undefined)
    if (!isOperators(wanted)) {
      tests.push(value => equal(read(value), wanted))
      continue
    }
    for (const [operator, operand] of Object.entries(wanted)) {
      const compare = OPERATORS[operator]
      if (compare === undefined)
        throw fail(
          'invalid',
          `filter.${member}: expected one of ${Object.keys(OPERATORS).join(', ')}, got "${operator.slice(0, 80)}"`,
        )
      if ((operator === '$in' || operator === '$nin') && !Array.isArray(operand))
        throw fail('invalid', `filter.${member}.${operator}: expected a list`)
      tests.push(value => compare(read(value), operand))
    }
  }
  return value => tests.every(test => test(value))
}

/** An object with at least one member that begins with `$` is a set of operators; any other is a literal. */
const isOperators = (value: unknown): value is { [operator: string]: unknown } =>
  isCompound(value) && !Array.isArray(value) && Object.keys(value).some(name => name.startsWith('$'))

/** Integers that a number cannot hold are BigInts, which compare with numbers. */
const isNumber = (value: unknown): value is number | bigint => typeof value === 'number' || typeof value === 'bigint'
const isCompound = (value: unknown): value is object => typeof value === 'object' && value !== null

/** Deep equality of JSON values; undefined (a missing member) equals nothing. */
function equal(a: unknown, b: unknown): boolean {
  if (!isCompound(a) || !isCompound(b)) return a !== undefined && a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [names, others] = [Object.keys(a), Object.keys(b)]
  return (
    names.length === others.length &&
    names.every(name => Object.hasOwn(b, name) && equal((a as JsonObject)[name], (b as JsonObject)[name]))
  )
}
