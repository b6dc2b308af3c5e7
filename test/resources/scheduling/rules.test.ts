/** The settings of an operator: what they may say, and what they say about a run. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { readScheduling, type Scheduling } from '../../../schemas/auth/scheduling.js'
import { limitsOf, priorityOf, rateOf, tenantOf } from '../../../workers/resources/scheduling/rules.js'

const run = { metadata: '{}', key_id: null, graph_id: 'g', assistant_id: 'a', auth_user: null }

t.test('WEFT_SCHEDULING is JSON, or the path of a file with JSON', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-scheduling-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'scheduling.json')
  writeFileSync(file, '{"tenant":"key"}')
  t.equal(readScheduling(' '), null)
  t.same(readScheduling('{"tenant":"user","limits":{"tenant":3}}'), { tenant: 'user', limits: { tenant: 3 } })
  t.same(readScheduling(file), { tenant: 'key' })
  for (const [text, sentence] of [
    ['{"tenant":', /WEFT_SCHEDULING must be JSON or the path of a JSON file, but the value cannot be read/],
    [join(folder, 'absent.json'), /but the file .*absent\.json cannot be read/],
    ['{"tenant":"team"}', /WEFT_SCHEDULING: tenant: expected "user", "key" or a path as "metadata\.team"/],
    ['{"weights":{"a":0}}', /WEFT_SCHEDULING: weights\.a: expected a number/],
    ['{"priority":{"graphs":{"g":6}}}', /priority\.graphs\.g: expected a number up to 5/],
    ['{"limits":{"tenant":0}}', /limits\.tenant: expected a number of at least 1/],
    ['{"rates":{"tenant":{"max":0,"per":"1m"}}}', /rates\.tenant\.max: expected a number of at least 1/],
    ['{"rates":{"tenant":{"max":1}}}', /rates\.tenant\.per: expected a time as "1s", "5m" or "24h"/],
    ['{"rates":{"tenants":{"a b":{"max":1,"per":"1 minute"}}}}', /per"?: expected a time as "1s", "5m" or "24h"/],
    [
      '{"rates":{"tenants":{"a":{"max":2,"per":"1m","burst":3}}}}',
      /rates\.tenants\.a\.burst: expected at most its max, 2/,
    ],
    ['{"rate":{}}', /WEFT_SCHEDULING: rate: expected/],
    ['{"limit":{}}', /WEFT_SCHEDULING: limit: expected/],
  ] as const)
    t.throws(() => readScheduling(text), { message: sentence, name: 'RangeError' }, text)
})

t.test('the tenant is the caller, the key, or a value of the metadata', async t => {
  const metadata = '{"team":{"id":17},"constructor":"x","odd":"a\\ud800\\u0000b"}'
  const of = (tenant: Scheduling['tenant']) =>
    tenantOf(tenant === undefined ? {} : { tenant }, { ...run, metadata, key_id: 'k', auth_user: '{"identity":"ada"}' })
  t.equal(of('user'), 'ada')
  t.equal(of('key'), 'k')
  t.equal(of('metadata.team.id'), '17')
  t.equal(of('metadata.team'), '{"id":17}')
  t.equal(of('metadata.team.absent'), '')
  t.equal(of('metadata.toString'), '')
  t.equal(of('metadata.odd'), 'a\ufffdb')
  t.equal(of(undefined), '')
  t.equal(tenantOf({ tenant: 'user' }, run), '')
  t.equal(tenantOf({ tenant: 'metadata.x' }, { ...run, metadata: `{"x":"${'y'.repeat(300)}"}` }).length, 64)
})

t.test('the priority of a run comes before that of its assistant, and that before that of its graph', async t => {
  const scheduling: Scheduling = {
    priority: { run: 'metadata.urgency', assistants: { a: 3 }, graphs: { g: -2, other: 1 } },
  }
  const of = (more: Partial<typeof run>) => priorityOf(scheduling, { ...run, ...more })
  t.equal(of({ metadata: '{"urgency":-5}' }), -5)
  t.equal(of({}), 3)
  t.equal(of({ assistant_id: 'b' }), -2)
  t.equal(of({ assistant_id: 'b', graph_id: 'constructor' }), 0)
  for (const wrong of ['6', '-6', '0.5', '"1"', 'true'])
    t.throws(
      () => of({ metadata: `{"urgency":${wrong}}` }),
      /metadata\.urgency: expected a whole number from -5/,
      wrong,
    )
})

t.test('a named tenant or key has its own limit', async t => {
  const limits = { tenant: 5, tenants: { a: 1 }, key: 7, keys: { k: 2 } }
  const most = (tenant: string, key_id: string | null) =>
    limitsOf({ limits }, { ...run, tenant, key_id }).map(({ most }) => most)
  t.same(most('a', 'k'), [1, 2])
  t.same(most('b', 'other'), [5, 7])
  t.same(most('toString', null), [5])
})

t.test('a named tenant has its own rate', async t => {
  const rates = { tenant: { max: 10, per: '1s' }, tenants: { a: { max: 1, per: '1m', burst: 1 } } }
  t.same(rateOf({ rates }, 'a'), { interval: 60_000_000, slack: 0 })
  t.same(rateOf({ rates }, ''), { interval: 100_000, slack: 0 })
  t.same(rateOf({ rates }, 'constructor'), { interval: 100_000, slack: 0 })
  t.equal(rateOf({ rates: { tenants: rates.tenants } }, 'b'), null)
  t.equal(rateOf({ limits: {} }, 'b'), null)
})
