import fc from 'fast-check'
import t from 'tap'
import { ANY_KEY } from '../../schemas/contains.js'
import { itemFilter } from '../../schemas/items/items.js'
import { itemConditions, itemKeys } from '../../schemas/items/keys.js'
import type { JsonObject } from '../../schemas/json.js'

/** Reads a condition like the stores. */
const isCandidate = (value: JsonObject, filter: JsonObject): boolean => {
  const keys = itemKeys(value)
  return itemConditions(filter).every(
    ranges => keys.includes(ANY_KEY) || keys.some(key => ranges.some(({ from, to }) => key >= from && key <= to)),
  )
}

const text = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.string({ unit: 'binary', maxLength: 4 }),
  fc.constantFrom(
    '',
    'a',
    'a\x00',
    'a\x1f',
    'a ',
    'a\x7f',
    'aé',
    'a\u{1f600}',
    '10',
    '9',
    'true',
    'x'.repeat(39),
    'null',
  ),
  fc.tuple(fc.constant('x'.repeat(39)), fc.string({ maxLength: 3 })).map(parts => parts.join('')),
)
const scalar = fc.oneof(
  text,
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer({ min: -3, max: 12 }),
  fc.constantFrom(true, false, null, 0, -0, 1e308, -1e308, 5e-324),
)
const member = fc.constantFrom('a', 'b', '$odd', '__proto__x', 'é', 'm'.repeat(80))
const value = fc.dictionary(member, fc.oneof(scalar, fc.array(scalar, { maxLength: 2 })), { maxKeys: 4 })
const operators = fc.dictionary(
  fc.constantFrom('$eq', '$ne', '$gt', '$gte', '$lt', '$lte'),
  fc.oneof(scalar, fc.array(scalar, { maxLength: 2 })),
  { minKeys: 1, maxKeys: 3 },
)
const lists = fc.record({ $in: fc.array(fc.oneof(scalar, fc.array(scalar)), { maxLength: 4 }) })
const filter = fc.dictionary(member, fc.oneof(scalar, operators, lists), { maxKeys: 2 })

t.test('what passes a filter meets its conditions', async t => {
  let passed = 0
  fc.assert(
    fc.property(value, filter, (value, filter) => {
      if (!itemFilter(filter as JsonObject)(value as JsonObject)) return true
      passed++
      return isCandidate(value as JsonObject, filter as JsonObject)
    }),
    { numRuns: 20_000 },
  )
  t.ok(passed > 1_000, `${passed} have passed`)
})

t.test('a comparison narrows', async t => {
  const narrowed = (value: JsonObject, filter: JsonObject) =>
    t.notOk(isCandidate(value, filter), JSON.stringify(filter))
  narrowed({ a: 1 }, { a: { $gt: 1.5 } })
  narrowed({ a: -2 }, { a: { $gte: -1, $lt: 0 } })
  narrowed({ a: 3 }, { a: { $gte: -1, $lt: 0 } })
  narrowed({ a: '2026-01-01' }, { a: { $gt: '2026-01-02' } })
  narrowed({ a: 'x' }, { a: 'y' })
  narrowed({ a: 1 }, { a: '1' })
  narrowed({ a: 1 }, { b: 1 })
  narrowed({ a: 'é1' }, { a: 'é2' })
  narrowed({ a: 4 }, { a: { $in: [1, 2, 'x'] } })
  t.ok(isCandidate({ a: 4 }, { a: { $in: Array.from({ length: 30 }, (_, i) => i + 10) } }), 'too many alternatives')
  const many = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`m${i}`, i]))
  t.same(itemKeys(many), [ANY_KEY])
})
