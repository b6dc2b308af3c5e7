import fc from 'fast-check'
import t from 'tap'
import { ANY_KEY, contains, keysOf } from '../../schemas/contains.js'

t.test('containment is that of jsonb', async t => {
  const rows: [stored: unknown, filter: unknown, expected: boolean][] = [
    [{ a: 1, b: 2 }, {}, true],
    [{ a: 1, b: 2 }, { a: 1 }, true],
    [{ a: 1 }, { a: 2 }, false],
    [{ a: 1 }, { a: '1' }, false],
    [{ a: 1 }, { b: 1 }, false],
    [{ a: null }, { a: null }, true],
    [{}, { a: null }, false],
    [{ a: false }, { a: 0 }, false],
    [{ a: { b: { c: 1, d: 2 } } }, { a: { b: { c: 1 } } }, true],
    [{ a: { b: 1 } }, { a: {} }, true],
    [{ a: { b: 1 } }, { a: [] }, false],
    [{ a: 1 }, { a: {} }, false],
    [{ a: [1, 2, 3] }, { a: [3, 1] }, true],
    [{ a: [1, 2, 3] }, { a: [1, 1, 1] }, true],
    [{ a: [1, 2] }, { a: [1, 4] }, false],
    [{ a: [1, 2] }, { a: [] }, true],
    [{ a: [1, 2] }, { a: 1 }, false],
    [{ a: [{ b: 1, c: 2 }, { b: 2 }] }, { a: [{ b: 2 }, { c: 2 }] }, true],
    [{ a: [{ b: 1 }, { c: 2 }] }, { a: [{ b: 1, c: 2 }] }, false],
    [{ a: [[1, 2], [3]] }, { a: [[2]] }, true],
    [{ a: [[1, 2], [3]] }, { a: [[2, 3]] }, false],
    [JSON.parse('{"__proto__":{"a":1}}'), JSON.parse('{"__proto__":{"a":1}}'), true],
    [{}, JSON.parse('{"__proto__":{}}'), false],
    [{}, { toString: {} }, false],
    [{ a: Array.from({ length: 100 }, (_, i) => i) }, { a: [99, 5, 50] }, true],
    [{ a: Array.from({ length: 100 }, (_, i) => i) }, { a: [99, 100] }, false],
    [{ a: Array.from({ length: 100 }, (_, i) => ({ i })) }, { a: [{ i: 3 }, { i: 70 }] }, true],
  ]
  for (const [stored, filter, expected] of rows)
    t.equal(contains(stored, filter), expected, `${JSON.stringify(stored).slice(0, 60)} ⊇ ${JSON.stringify(filter)}`)
})

t.test('what is contained is never left out by its keys', async t => {
  const seed = 20_261_122
  t.comment(`fast-check seed ${seed}`)
  const name = fc.constantFrom('a', 'b', 'a.b', '[]', '=', '"', '__proto__', '')
  const scalar = fc.constantFrom(0, -0, 1, 1.5, '1', '', 'x', null, true, false, 'long'.repeat(100))
  const { any } = fc.letrec(tie => ({
    any: fc.oneof(
      { depthSize: 'small' },
      scalar,
      fc.array(tie('any'), { maxLength: 3 }),
      fc.array(fc.tuple(name, tie('any')), { maxLength: 3 }).map(Object.fromEntries),
    ),
  }))
  /** A part of a document: what is left when some of it is taken away. */
  const part = (value: unknown, pick: () => boolean): unknown => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.filter(pick).map(element => part(element, pick))
    return Object.fromEntries(
      Object.entries(value)
        .filter(pick)
        .map(([key, inner]) => [key, part(inner, pick)]),
    )
  }
  const keep = (stored: unknown, filter: unknown) => {
    const known = new Set(keysOf(stored))
    return known.has(ANY_KEY) || keysOf(filter).every(key => known.has(key))
  }
  fc.assert(
    fc.property(any, fc.infiniteStream(fc.boolean()), (stored, coins) => {
      const filter = part(stored, () => coins.next().value === true)
      return contains(stored, filter) && keep(stored, filter)
    }),
    { seed, numRuns: 5_000 },
  )
  fc.assert(
    fc.property(any, any, (stored, filter) => !contains(stored, filter) || keep(stored, filter)),
    { seed, numRuns: 5_000 },
  )
})

t.test('keys tell paths and types apart, and are bounded', async t => {
  t.same(keysOf({}), [])
  t.same(keysOf({ a: { b: 1 } }), ['."a"."b"=1'])
  t.notSame(keysOf({ a: { b: 1 } }), keysOf({ 'a"."b': 1 }))
  t.notSame(keysOf({ a: 1 }), keysOf({ a: '1' }))
  t.same(keysOf({ a: [1, 2, 1] }), ['."a"[]=1', '."a"[]=2'])
  t.same(keysOf({ a: -0 }), keysOf({ a: 0 }))
  t.equal(keysOf(Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`k${i}`, i]))).length, 64)
  t.same(keysOf(Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, i]))), [ANY_KEY])
  const [long] = keysOf({ text: 'x'.repeat(1_000_000) })
  t.ok(long!.length < 100)
  t.notSame(keysOf({ text: `${'x'.repeat(1_000_000)}y` }), [long])
})

t.test('what would take too long is refused', async t => {
  const stored = { a: Array.from({ length: 5_000 }, (_, i) => ({ i })) }
  const filter = { a: Array.from({ length: 5_000 }, (_, i) => ({ i: -i - 1 })) }
  t.equal(contains(stored, filter), false, 'the first that is missing decides')
  t.throws(() => contains(stored, { a: stored.a.toReversed() }), { code: 'invalid' })
})
