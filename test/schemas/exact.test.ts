/** Integers beyond 2^53 keep their digits between a text and a value. */
import fc from 'fast-check'
import t from 'tap'
import { contains, keysOf } from '../../schemas/contains.js'
import { jsonText, parseJson } from '../../schemas/exact.js'
import { itemFilter } from '../../schemas/items/items.js'
import { itemConditions, itemKeys } from '../../schemas/items/keys.js'

t.test('the digits of 64-bit integers stay, wherever they are', async t => {
  for (const text of [
    '1312345678901234567',
    '-9223372036854775808',
    '18446744073709551615',
    '[9007199254740993,-9007199254740993]',
    '{"a":{"b":[9007199254740993]},"c":"9007199254740993"}',
    '{"\\"":9007199254740993,"\\\\":[9007199254740993]}',
    '{"a\\\\\\":9007199254740993":1}',
    '{"__proto__":9007199254740993}',
  ])
    t.equal(jsonText(parseJson(text)), text)
  t.equal(jsonText(parseJson(' [ 9007199254740993\n, 1 ] ')), '[9007199254740993,1]')
  t.equal(parseJson('9007199254740993'), 9007199254740993n)
})

t.test('everything else is as JSON.parse has it', async t => {
  for (const text of [
    '9007199254740991',
    '[1e21,0.12345678901234567890,1234567890123456.5,12345678901234567e2]',
    '100000000000000000000',
    '-9223372036854775809',
    '"12345678901234567890"',
    '{"12345678901234567890":"[12345678901234567890]"}',
    '"\\\\\\"12345678901234567890"',
  ])
    t.same(parseJson(text), JSON.parse(text), text)
  for (const text of [
    '[12345678901234567890',
    '[12345678901234567890 1]',
    '"12345678901234567890',
    '{1234567890123456789}',
  ]) {
    const messages = [parseJson, JSON.parse].map(parse => {
      try {
        return parse(text)
      } catch (error) {
        return (error as Error).message
      }
    })
    t.equal(messages[0], messages[1], text)
  }
})

t.test('any value', async t => {
  const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }).filter(each => !Number.isSafeInteger(Number(each)))
  const { value } = fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.string({ unit: 'binary' }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      long,
      long.map(String),
      fc.constantFrom(null, true, '"', '\\', '\\"'),
      fc.array(tie('value')),
      fc.dictionary(fc.string(), tie('value')),
    ),
  }))
  const isKept = fc.property(value, given => {
    const text = jsonText(given)
    return jsonText(parseJson(text)) === text
  })
  t.doesNotThrow(() => fc.assert(isKept, { seed: 95 }))
})

t.test('a text cannot pass for an integer', async t => {
  const text = jsonText([1n, '1', '"1"'])
  t.equal(text, '[1,"1","\\"1\\""]')
  t.equal(
    jsonText({ a: 1n, b: undefined }, (name, value) => (name === 'c' ? 0 : value)),
    '{"a":1}',
  )
  const circle: { self?: unknown } = {}
  circle.self = circle
  t.throws(() => jsonText(circle), /circular/)
})

const [ID, NEXT] = [1312345678901234567n, 1312345678901234568n]

t.test('a filter finds exactly its integer', async t => {
  const document = parseJson(`{"chat":${ID},"chats":[${ID}]}`)
  for (const [filter, expected] of [
    [`{"chat":${ID}}`, true],
    [`{"chat":${NEXT}}`, false],
    [`{"chats":[${ID}]}`, true],
    [`{"chats":[${NEXT}]}`, false],
  ] as const) {
    const wanted = parseJson(filter)
    t.equal(contains(document, wanted), expected, filter)
    if (expected) t.ok(keysOf(wanted).every(key => keysOf(document).includes(key)))
  }
  for (const [filter, expected] of [
    [{ chat: ID }, true],
    [{ chat: NEXT }, false],
    [{ chat: { $gte: ID } }, true],
    [{ chat: { $gt: ID } }, false],
    [{ chat: { $lt: NEXT } }, true],
    [{ chat: { $gt: 5 } }, true],
    [{ chat: { $in: [NEXT] } }, false],
    [{ chat: { $ne: NEXT } }, true],
  ] as const) {
    t.equal(itemFilter(filter)(document), expected, jsonText(filter))
    const keys = itemKeys(document)
    if (expected)
      t.ok(
        itemConditions(filter).every(ranges =>
          ranges.some(({ from, to }) => keys.some(key => key >= from && key <= to)),
        ),
        `the keys of ${jsonText(filter)}`,
      )
  }
})
