/**
 * The keys of an item: one text for each scalar among the members of its value, in an order that is that of the values, so
 * that equality and comparisons of a filter are ranges of an index (docs/spec/items.md#filters). A range may hold more
 * than what matches; `itemFilter` decides.
 */
import { hash } from 'node:crypto'
import { ANY_KEY } from '../contains.js'
import { isObject, type JsonObject } from '../json.js'

/** From `from` to `to`, both included. */
export interface KeyRange {
  from: string
  to: string
}

/** Alternatives: an item must have a key in one of them, or `ANY_KEY`. */
export type KeyCondition = readonly KeyRange[]

type Scalar = string | number | bigint | boolean | null

/** More keys than this are not kept: the item then has `ANY_KEY` alone, and stays a candidate for every filter. */
const MAX_KEYS = 64
/** Characters of a text that are kept as they are. */
const MAX_TEXT = 40
const MAX_MEMBER = 64
/** More conditions than this do not narrow a search: each is a part of the query of the store. */
const MAX_CONDITIONS = 20
/** More alternatives of `$in` than this do not narrow a search. */
const MAX_ALTERNATIVES = 20
/** After every character that is kept, and before. */
const LAST = '\x7f'
const FIRST = '\x1f'

/** The types of scalars: their values are in an order, one type after the other. */
const TYPES = {
  number: { from: 'n', to: `n${LAST}` },
  string: { from: 's', to: `s${LAST}${LAST}` },
  other: { from: 'b', to: `b${LAST}` },
} as const

export function itemKeys(value: JsonObject): string[] {
  const keys: string[] = []
  for (const [member, scalar] of Object.entries(value))
    if (isScalar(scalar) && keys.push(nameOf(member) + textOf(scalar)) > MAX_KEYS) return [ANY_KEY]
  return keys
}

/** The keys that an item must have to pass the filter. Members that compare with objects or lists narrow nothing. */
export function itemConditions(filter: JsonObject): KeyCondition[] {
  const conditions: KeyCondition[] = []
  for (const [member, wanted] of Object.entries(filter)) {
    const name = nameOf(member)
    const operators =
      isObject(wanted) && Object.keys(wanted).some(key => key.startsWith('$')) ? wanted : { $eq: wanted }
    for (const ranges of conditionsOf(operators)) {
      conditions.push(ranges.map(({ from, to }) => ({ from: name + from, to: name + to })))
      if (conditions.length === MAX_CONDITIONS) return conditions
    }
  }
  return conditions
}

/** Comparisons of one member narrow the same ranges, one for each type. */
function conditionsOf(operators: JsonObject): KeyCondition[] {
  const conditions: KeyCondition[] = []
  let compared: KeyRange[] | null = null
  for (const [operator, operand] of Object.entries(operators)) {
    if (operator === '$in' && Array.isArray(operand)) {
      const exact = new Map(operand.filter(isScalar).map(one => [textOf(one), exactly(one)]))
      if (operand.every(isScalar) && exact.size <= MAX_ALTERNATIVES) conditions.push([...exact.values()])
      continue
    }
    if (!isScalar(operand)) continue
    const ranges = operator === '$eq' ? [exactly(operand)] : rangesOf(operator, operand)
    if (ranges !== null) compared = compared === null ? ranges : both(compared, ranges)
  }
  return compared === null ? conditions : [...conditions, compared]
}

/** The keys that may pass a comparison: numbers are compared with numbers, everything else as text. */
function rangesOf(operator: string, operand: Scalar): KeyRange[] | null {
  const isAbove = operator === '$gt' || operator === '$gte'
  if (!isAbove && operator !== '$lt' && operator !== '$lte') return null
  const { number, string, other } = TYPES
  const numbers = isNumber(operand) ? bounded(number, isAbove, textOf(operand), textOf(operand)) : number
  const prefix = `s${plainPrefix(String(operand))}`
  const isWhole = prefix.length === String(operand).length + 1
  return [numbers, bounded(string, isAbove, prefix, isWhole ? prefix : prefix + LAST + LAST), other]
}

const bounded = ({ from, to }: KeyRange, isAbove: boolean, lower: string, upper: string): KeyRange =>
  isAbove ? { from: lower, to } : { from, to: upper }

function both(some: readonly KeyRange[], others: readonly KeyRange[]): KeyRange[] {
  const found: KeyRange[] = []
  for (const a of some)
    for (const b of others) {
      const [from, to] = [[a.from, b.from].sort()[1]!, [a.to, b.to].sort()[0]!]
      if (from <= to) found.push({ from, to })
    }
  return found
}

const exactly = (scalar: Scalar): KeyRange => ({ from: textOf(scalar), to: textOf(scalar) })

/** The member; texts of 64 bytes and more, and odd ones, are kept as their hash. */
function nameOf(member: string): string {
  const name = JSON.stringify(member)
  return `${name.length <= MAX_MEMBER && plainPrefix(name, MAX_MEMBER) === name ? name : digest(member)}=`
}

function textOf(scalar: Scalar): string {
  if (isNumber(scalar)) return `n${sortable(Number(scalar))}`
  if (typeof scalar !== 'string') return `b${scalar}`
  const prefix = plainPrefix(scalar)
  if (prefix.length === scalar.length) return `s${scalar}`
  const isBefore = prefix.length < MAX_TEXT && scalar.charCodeAt(prefix.length) < 0x20
  return `s${prefix}${isBefore ? FIRST : LAST}${digest(scalar)}`
}

const PLAIN = /^[\x20-\x7e]*/
const plainPrefix = (text: string, most = MAX_TEXT): string => PLAIN.exec(text.slice(0, most))![0]
const digest = (text: string): string => hash('sha256', text, 'base64url').slice(0, 22)

const bits = new DataView(new ArrayBuffer(8))

/** 16 hexadecimal digits in the order of the numbers: the sign is inverted, of negative numbers every bit. */
function sortable(number: number): string {
  bits.setFloat64(0, number === 0 ? 0 : number)
  const high = bits.getUint32(0)
  const low = bits.getUint32(4)
  const isNegative = high >= 0x80000000
  return hex(isNegative ? ~high : high | 0x80000000) + hex(isNegative ? ~low : low)
}

const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, '0')
/** An integer that a number cannot hold has the key of its neighbours: `itemFilter` decides. */
const isNumber = (scalar: Scalar): scalar is number | bigint => typeof scalar === 'number' || typeof scalar === 'bigint'
const isScalar = (value: unknown): value is Scalar => value === null || typeof value !== 'object'
