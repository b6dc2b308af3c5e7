/** Bodies that break parsers and validators, for tests that send them to every route. */
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import fc from 'fast-check'
import type { Route } from '../../edge/routes.js'

/** Keys that a language, a database or a path gives a meaning. */
export const hostileKey: fc.Arbitrary<string> = fc.constantFrom(
  '__proto__',
  'constructor',
  '$where',
  'a.b',
  '',
  '\u0000',
  '\ud800',
  '*',
  '>',
  '../x',
)
/** Any JSON value, with hostile keys at every depth. */
export const anyJson: fc.Arbitrary<unknown> = fc.letrec(tie => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, false, 0, -1, 1e308, 2 ** 53, -0.5, '', '*', 'echo'),
    fc.string({ unit: 'binary', maxLength: 20 }),
    hostileKey,
    fc.array(tie('any'), { maxLength: 4 }),
    fc
      .array(fc.tuple(fc.oneof(hostileKey, fc.string({ maxLength: 8 })), tie('any')), { maxLength: 4 })
      .map(fromEntries),
  ),
})).any

/** Own keys only: `__proto__` is data. */
function fromEntries(entries: [string, unknown][]): object {
  return JSON.parse(`{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value) ?? 'null'}`)}}`)
}

/** An object with hostile keys. */
export const anyObject: fc.Arbitrary<object> = fc
  .array(fc.tuple(fc.oneof(hostileKey, fc.string({ maxLength: 8 })), anyJson), { maxLength: 4 })
  .map(fromEntries)

const json = fc.oneof(fc.constant({}), anyJson)
const FIELDS: { readonly [field: string]: fc.Arbitrary<unknown> } = {
  assistant_id: fc.constantFrom('echo', 'counter', 'absent', randomUUID()),
  graph_id: fc.constantFrom('echo', 'absent'),
  thread_id: fc.uuid(),
  if_exists: fc.constantFrom('raise', 'do_nothing'),
  if_not_exists: fc.constantFrom('create', 'reject'),
  input: json,
  command: fc.oneof(json, fc.record({ resume: anyJson, update: anyJson, goto: anyJson }, { requiredKeys: [] })),
  metadata: json,
  config: fc.oneof(
    json,
    fc.record({ configurable: json, recursion_limit: anyJson, tags: anyJson }, { requiredKeys: [] }),
  ),
  context: json,
  stream_mode: fc.constantFrom<unknown>('values', ['updates', 'messages'], [], 'messages-tuple'),
  multitask_strategy: fc.constantFrom('reject', 'enqueue', 'interrupt', 'rollback'),
  on_disconnect: fc.constantFrom('cancel', 'continue'),
  on_completion: fc.constantFrom('delete', 'keep'),
  durability: fc.constantFrom('sync', 'async', 'exit'),
  interrupt_before: fc.constantFrom<unknown>('*', ['a']),
  checkpoint: fc.record({ checkpoint_id: fc.uuid(), checkpoint_ns: fc.string() }, { requiredKeys: [] }),
  schedule: fc.constantFrom('0 0 1 1 *', '* *', '61 * * * *'),
  limit: fc.integer({ min: -1, max: 2_000 }),
  offset: fc.integer({ min: -1, max: 10 }),
  values: json,
  as_node: fc.string({ maxLength: 8 }),
  supersteps: anyJson,
  ttl: fc.oneof(anyJson, fc.record({ ttl: fc.double(), strategy: fc.string() }, { requiredKeys: [] })),
  status: fc.constantFrom('idle', 'busy', 'pending', 'all', 'x'),
  sort_by: fc.constantFrom('created_at', 'x'),
  select: anyJson,
  extract: anyJson,
  name: fc.string(),
  source: fc.constantFrom('github', 'external_docker'),
  source_config: json,
  source_revision_config: json,
  secrets: anyJson,
  channels: anyJson,
  method: fc.constantFrom('run.start', 'input.respond', 'state.get', 'x'),
  params: anyJson,
  id: fc.integer(),
}
const fields = Object.fromEntries(
  Object.entries(FIELDS).map(([field, valid]) => [field, fc.oneof({ weight: 2, arbitrary: valid }, anyJson)]),
)
const RARE = Object.keys(FIELDS)
/** A body with members that routes know: most are JSON, some are truncated, some have a key twice. */
export const hostileBody: fc.Arbitrary<string> = fc
  .tuple(
    fc.record(fields, { requiredKeys: [] }),
    fc.subarray(RARE, { maxLength: 8 }),
    fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
    fc.boolean(),
  )
  // A few fields at a time, because most bodies would fail at the first; some are truncated, some have a duplicate key.
  .map(([record, kept, part, twice]) => {
    const some = Object.fromEntries(Object.entries(record).filter(([field]) => kept.includes(field)))
    const text = JSON.stringify({ assistant_id: 'echo', graph_id: 'echo', ...some })
    const doubled = twice ? text.replace(/^\{/, '{"metadata":1,') : text
    return part === 1 ? doubled : doubled.slice(0, Math.floor(part * doubled.length))
  })

const DEPTH = 100_000
const deep = Buffer.from(`${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}`)
const inBody = (...value: (string | Buffer)[]) =>
  Buffer.concat(
    ['{"assistant_id":"echo","graph_id":"echo","metadata":{"a":', ...value, '}}'].map(one => Buffer.from(one)),
  )

/** Bodies that JSON does not allow, or allows and a program that reads them may not expect. */
export const MALFORMED: { readonly [kind: string]: Buffer } = {
  NaN: inBody('NaN'),
  Infinity: inBody('-Infinity'),
  'a huge number': inBody('1e999'),
  'a number of 100,000 digits': inBody('9'.repeat(100_000)),
  'a key twice': Buffer.from('{"assistant_id":"echo","assistant_id":7,"graph_id":"echo","graph_id":{}}'),
  'a byte order mark': Buffer.from('\ufeff{"assistant_id":"echo"}'),
  'UTF-16': Buffer.from('{"assistant_id":"echo"}', 'utf16le'),
  'invalid UTF-8': inBody('"', Buffer.from([0xc3, 0x28, 0xff, 0xfe]), '"'),
  'an overlong form': inBody('"', Buffer.from([0xc0, 0x80]), '"'),
  'a lone surrogate as bytes': inBody('"', Buffer.from([0xed, 0xa0, 0x80]), '"'),
  'a lone surrogate as an escape': inBody('"\\ud800"'),
  'NUL as an escape': inBody('"\\u0000"'),
  'NUL as a byte': inBody('"\u0000"'),
  'only NUL': Buffer.alloc(64),
  'arrays 100,000 deep': deep,
  'arrays 100,000 deep in a member': inBody(deep),
  'arrays 100,000 deep without an end': deep.subarray(0, DEPTH),
  'objects 100,000 deep': Buffer.from('{"a":'.repeat(DEPTH)),
  'a text': Buffer.from('"echo"'),
  'a number': Buffer.from('-0'),
  null: Buffer.from('null'),
  'a list': Buffer.from('[[],{},null]'),
  'two values': Buffer.from('{}{}'),
  'a comma at the end': inBody('1,'),
  'single quotes': Buffer.from("{'assistant_id':'echo'}"),
  'half a key': Buffer.from('{"assistant_'),
  'one brace': Buffer.from('{'),
  'nothing but space': Buffer.from(' \n\t '),
}

/** The path of a route with these ids; a random one for each that is not given. */
export const pathOf = ({ path }: Route, ids: { [param: string]: string }): string =>
  path.replace(/:(\w+)/g, (_, param: string) => ids[param] ?? randomUUID())

/** Time until the head of the response. No head by then counts as a failure, reported as status 0. */
const PATIENCE_MS = 10_000

/** Sends the bytes as JSON; the status, 0 without an answer. A stream is left after its head. */
export function sendBody(
  url: string,
  method: string,
  path: string,
  body: string | Buffer,
  key: string,
): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'x-api-key': key,
      'content-length': Buffer.byteLength(body),
    }
    const req = request({ hostname, port, path, method, headers, agent: false }, res => {
      resolve(res.statusCode!)
      res.on('error', () => {})
      if (res.headers['content-type']?.startsWith('text/event-stream')) req.destroy()
      else res.resume()
    })
    req.setTimeout(PATIENCE_MS, () => {
      resolve(0)
      req.destroy()
    })
    req.on('error', reject)
    req.end(body)
  })
}
