/**
 * The contract as data: a row for each field of a table, and a test for each row. The test of a request field sends
 * every value that it accepts and checks the effect, sends the request without it, and sends every other type, which
 * must be refused. A response must have each field with its type.
 */
import type { Test } from 'tap'

export type Json = unknown
export type Body = { [field: string]: Json }

/** The type of a field; a list is a closed set of texts. */
export type Type =
  | 'string'
  | 'uuid'
  | 'date-time'
  | 'boolean'
  | 'number'
  | 'integer'
  | 'object'
  | 'array'
  | 'array of string'
  | 'any'
  | readonly string[]

export interface RequestRow<Made> {
  /** Its path, such as `config.tags`. */
  field: string
  type: Type
  required?: true
  /** Values that it accepts, each with a check of its effect. */
  takes: [value: Json, see: (t: Test, made: Made) => void | Promise<void>][]
  /** A check of the effect when the request does not have it. */
  absent?: (t: Test, made: Made) => void | Promise<void>
  /** Further values that are refused with 422. */
  refuses?: Json[]
  /** Values of other types that are accepted, because the official clients send them. */
  also?: Json[]
}

export interface ResponseRow {
  field: string
  type: Type
  required?: true
  /** May be null. */
  nullable?: true
}

interface Kind {
  is: (value: Json) => boolean
}
const isObject = (value: Json): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value)
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

const KINDS: { [type in Extract<Type, string>]: Kind } = {
  string: { is: value => typeof value === 'string' },
  uuid: { is: value => typeof value === 'string' && UUID.test(value) },
  'date-time': { is: value => typeof value === 'string' && DATE_TIME.test(value) && !Number.isNaN(Date.parse(value)) },
  boolean: { is: value => typeof value === 'boolean' },
  number: { is: value => typeof value === 'number' },
  integer: { is: value => Number.isInteger(value) },
  object: { is: isObject },
  array: { is: Array.isArray },
  'array of string': { is: value => Array.isArray(value) && value.every(one => typeof one === 'string') },
  any: { is: () => true },
}

export const isOf = (type: Type, value: Json): boolean =>
  typeof type === 'string' ? KINDS[type].is(value) : (type as readonly Json[]).includes(value)

/** A value of each type, and lists with wrong elements. */
const SAMPLES: Json[] = ['no such text', 5, 5.5, true, [], ['a'], [5], {}, { a: 1 }]

/** The values that a field of this type must refuse. */
export const wrongOf = ({ type, required, refuses = [], also = [] }: RequestRow<never>): Json[] => [
  ...SAMPLES.filter(value => !isOf(type, value) && !also.some(one => JSON.stringify(one) === JSON.stringify(value))),
  ...(required ? [null] : []),
  ...refuses,
]

/** A copy of the body with the field set; undefined removes it. */
export function withField(body: Body, path: string, value: Json): Body {
  const [first, ...rest] = path.split('.') as [string, ...string[]]
  const { [first]: old, ...others } = body
  const inner = rest.length === 0 ? value : withField((old ?? {}) as Body, rest.join('.'), value)
  return inner === undefined ? others : { ...others, [first]: inner }
}

export interface Answer {
  status: number
  body: Json
}

export interface Table<Made> {
  name: string
  /** A body that is accepted. */
  good: () => Body | Promise<Body>
  /** The plain request. */
  send: (body: Body) => Promise<Answer>
  /** Sends the request and returns what the rows check. */
  make: (body: Body) => Promise<Made>
  rows: readonly RequestRow<Made>[]
}

/** A test for each row of a table of request fields. All requests are sent at the start, because some take time. */
export async function requestTests<Made>(t: Test, { name, good, send, make, rows }: Table<Made>): Promise<void> {
  const made = (row: RequestRow<Made>, value: Json): Promise<Made> => {
    const making = (async () => make(withField(await good(), row.field, value)))()
    // The test that awaits it sees the rejection too.
    making.catch(() => {})
    return making
  }
  const prepared = rows.map(row => ({
    row,
    taken: row.takes.map(([value]) => made(row, value)),
    without: row.absent && made(row, undefined),
  }))
  for (const { row, taken, without } of prepared)
    await t.test(`${name}: ${row.field}`, async t => {
      for (const [i, [value, see]] of row.takes.entries()) {
        t.comment(`takes ${short(value)}`)
        await see(t, await taken[i]!)
      }
      if (row.absent) {
        t.comment('left out')
        await row.absent(t, (await without)!)
      }
      const sent = async (value: Json) => send(withField(await good(), row.field, value))
      if (!row.required) t.equal((await sent(null)).status, 200, 'null means absent')
      for (const value of [...wrongOf(row as RequestRow<never>), ...(row.required ? [undefined] : [])]) {
        const { status, body } = await sent(value)
        t.equal(status, 422, `refuses ${short(value)}`)
        t.type((body as Body).detail, 'string', 'with a sentence')
      }
    })
}

/** A test for each row of a table of response fields. `objects`: answers, each of which must agree with the table. */
export async function responseTests(
  t: Test,
  name: string,
  rows: readonly ResponseRow[],
  objects: readonly Json[],
): Promise<void> {
  for (const { field, type, required, nullable } of rows)
    await t.test(`${name}: ${field}`, async t => {
      for (const object of objects) {
        const value = (object as Body)[field]
        if (value === undefined) t.notOk(required, 'it is required')
        else if (value === null) t.ok(nullable, 'it must not be null')
        else t.ok(isOf(type, value), `${short(value)} is ${typeof type === 'string' ? type : type.join(' or ')}`)
      }
    })
}

const short = (value: Json): string => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
