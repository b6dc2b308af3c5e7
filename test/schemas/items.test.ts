import t from 'tap'
import { itemFilter, labelsOf, namespaceOf, storable } from '../../schemas/items/items.js'
import type { JsonObject } from '../../schemas/json.js'

t.test('filters: every operator, several on one member, literals and missing members', async t => {
  const value = { n: 5, s: '2026-01-02', flag: false, none: null, list: [1, { a: 2 }], deep: { a: { b: 1 } } }
  const rows: [filter: JsonObject, matches: boolean][] = [
    [{}, true],
    [{ n: 5 }, true],
    [{ n: '5' }, false],
    [{ n: 5, s: 'x' }, false],
    [{ none: null }, true],
    [{ absent: null }, false],
    [{ deep: { a: { b: 1 } } }, true],
    [{ deep: { a: { b: 1, c: 2 } } }, false],
    [{ deep: { a: {} } }, false],
    [{ list: [1, { a: 2 }] }, true],
    [{ list: [{ a: 2 }, 1] }, false],
    [{ n: { $eq: 5 } }, true],
    [{ n: { $ne: 5 } }, false],
    [{ absent: { $ne: 5 } }, true],
    [{ n: { $gt: 4, $lt: 6 } }, true],
    [{ n: { $gt: 4, $lt: 5 } }, false],
    [{ n: { $gte: 5, $lte: 5 } }, true],
    [{ n: { $gt: 10 } }, false],
    [{ s: { $gt: '2026-01-01', $lte: '2026-01-02' } }, true],
    [{ absent: { $gt: 0 } }, false],
    [{ none: { $lte: 9 } }, false],
    [{ deep: { $gt: 0 } }, false],
    [{ n: { $in: [1, 5] } }, true],
    [{ n: { $nin: [1, 5] } }, false],
    [{ absent: { $nin: [1] } }, true],
    [{ list: { $in: [[1, { a: 2 }]] } }, true],
    [{ toString: { $ne: 1 } }, true],
    [{ 'deep.a.b': 1 }, false],
  ]
  for (const [filter, matches] of rows) t.equal(itemFilter(filter)(value), matches, JSON.stringify(filter))
  t.ok(itemFilter(null)(value))
})

t.test('filters: an unknown operator and a value that is no list are refused with the member', async t => {
  for (const [filter, message] of [
    [{ n: { $regex: 'x' } }, /filter\.n: expected one of \$eq, .*, got "\$regex"/],
    [{ n: { $gt: 1, other: 2 } }, /got "other"/],
    [{ n: { $in: 5 } }, /filter\.n\.\$in: expected a list/],
    [{ n: { $constructor: 1 } }, /got "\$constructor"/],
  ] as [JsonObject, RegExp][])
    t.throws(() => itemFilter(filter), { code: 'invalid', message })
})

t.test('namespaces: labels as documented', async t => {
  t.same(namespaceOf(['a', '*', '%_', ' '], 'write'), ['a', '*', '%_', ' '])
  t.same(labelsOf('prefix', []), [])
  t.same(namespaceOf(['langgraph'], 'read'), ['langgraph'], 'the reserved label can be read')
  for (const namespace of [[], null, undefined, [''], ['a', ''], ['a.b'], Array(101).fill('a'), ['x'.repeat(4_001)]])
    t.throws(() => namespaceOf(namespace, 'read'), { code: 'invalid', message: /^namespace: expected/ })
  t.throws(() => namespaceOf(['langgraph', 'x'], 'write'), { code: 'invalid', message: /reserved/ })
  t.equal(storable('a\0b\ud800\uffff'), 'a\ufffdb\ufffd\ufffd')
})
