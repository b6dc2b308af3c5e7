/**
 * Fuzzed bodies for every route that takes one: never a 5xx, never silence, never a process restart.
 * 2,000 bodies; LONG_TESTS=1 makes it 20,000. A failure prints the seed and the request.
 */
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import { ROUTES } from '../../edge/routes.js'
import { startCluster } from '../helpers/cluster.js'

t.setTimeout(900_000)
const COUNT = process.env.LONG_TESTS === '1' ? 20_000 : 2_000
const SEED = 20_261_121
const KEY = 'a-control-key-for-tests'
const AT_ONCE = 16
/** Time until the head of the response. No head by then counts as a failure, reported as status 0. */
const PATIENCE_MS = 10_000

const hostile = fc.constantFrom('__proto__', 'constructor', '$where', 'a.b', '', '\u0000', '\ud800', '*', '>', '../x')
const any = fc.letrec(tie => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, false, 0, -1, 1e308, 2 ** 53, -0.5, '', '*', 'echo'),
    fc.string({ unit: 'binary', maxLength: 20 }),
    hostile,
    fc.array(tie('any'), { maxLength: 4 }),
    fc.array(fc.tuple(fc.oneof(hostile, fc.string({ maxLength: 8 })), tie('any')), { maxLength: 4 }).map(fromEntries),
  ),
})).any

/** Own keys only: `__proto__` is data. */
function fromEntries(entries: [string, unknown][]): object {
  return JSON.parse(`{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value) ?? 'null'}`)}}`)
}

const json = fc.oneof(fc.constant({}), any)
const FIELDS: { readonly [field: string]: fc.Arbitrary<unknown> } = {
  assistant_id: fc.constantFrom('echo', 'counter', 'absent', randomUUID()),
  graph_id: fc.constantFrom('echo', 'absent'),
  thread_id: fc.uuid(),
  if_exists: fc.constantFrom('raise', 'do_nothing'),
  if_not_exists: fc.constantFrom('create', 'reject'),
  input: json,
  command: fc.oneof(json, fc.record({ resume: any, update: any, goto: any }, { requiredKeys: [] })),
  metadata: json,
  config: fc.oneof(json, fc.record({ configurable: json, recursion_limit: any, tags: any }, { requiredKeys: [] })),
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
  supersteps: any,
  ttl: fc.oneof(any, fc.record({ ttl: fc.double(), strategy: fc.string() }, { requiredKeys: [] })),
  status: fc.constantFrom('idle', 'busy', 'pending', 'all', 'x'),
  sort_by: fc.constantFrom('created_at', 'x'),
  select: any,
  extract: any,
  name: fc.string(),
  source: fc.constantFrom('github', 'external_docker'),
  source_config: json,
  source_revision_config: json,
  secrets: any,
  channels: any,
  method: fc.constantFrom('run.start', 'input.respond', 'state.get', 'x'),
  params: any,
  id: fc.integer(),
}
const fields = Object.fromEntries(
  Object.entries(FIELDS).map(([field, valid]) => [field, fc.oneof({ weight: 2, arbitrary: valid }, any)]),
)
const RARE = Object.keys(FIELDS)
const body = fc
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

t.test(`${COUNT} fuzzed bodies`, async t => {
  const cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_CONTROL_KEY: KEY, LOG_LEVEL: 'error' } })
  t.teardown(() => cluster.stop())
  const { hostname, port } = new URL(cluster.url)
  const before = cluster.pids().sort()
  const made = await fetch(`${cluster.url}/threads`, { method: 'POST', body: '{}' })
  const { thread_id } = (await made.json()) as { thread_id: string }
  const rows = ROUTES.filter(({ method }) => method !== 'GET' && method !== 'DELETE')
  const samples = fc.sample(body, { seed: SEED, numRuns: COUNT })

  const statuses = new Map<number, number>()
  let wrong = 0
  const one = async (i: number) => {
    const route = rows[i % rows.length]!
    const id = i % 3 === 0 ? randomUUID() : thread_id
    const path = route.path.replace(/:(\w+)/g, (_, param) => (param === 'thread_id' ? id : randomUUID()))
    const status = await send(route.method, path, samples[i]!)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (status > 0 && status < 500) return
    if (++wrong <= 5) t.fail(`${route.method} ${path}: ${status}`, { seed: SEED, body: samples[i] })
  }
  const send = (method: string, path: string, text: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'x-api-key': KEY }
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
      req.end(text)
    })

  let next = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < COUNT) await one(next++)
    }),
  )
  t.comment(`statuses: ${[...statuses].sort().map(([status, count]) => `${status} × ${count}`)}`)
  t.equal(wrong, 0, 'an answer below 500 for each')
  t.ok((statuses.get(200) ?? 0) > COUNT / 20, 'a good part was accepted and did something')
  t.same(cluster.pids().sort(), before, 'no process was started again')
  t.equal(({} as { polluted?: unknown }).polluted, undefined)
  const run = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"assistant_id":"echo","input":{}}',
  })
  t.equal(run.status, 200, 'and an ordinary run works')
  await run.arrayBuffer()
})
