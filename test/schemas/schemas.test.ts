import fc from 'fast-check'
import t from 'tap'
import { readConfig, SETTINGS } from '../../schemas/config.js'
import { ERRORS, fail } from '../../schemas/errors.js'
import { isUuid, token } from '../../schemas/ids.js'
import { cutter, pack, unpack } from '../../schemas/packed.js'
import { validateRunCreate } from '../../schemas/runs.js'
import { attemptOf, blockOf, chunk, firstIdOf, live } from '../../schemas/subjects.js'

t.test('no text becomes part of a subject unless it is a token', async t => {
  for (const bad of ['', '*', '>', 'a.b', 'a b', 'a\r\nb', '\0', 'é', 'x'.repeat(65)])
    t.throws(() => token('run', bad), RangeError, JSON.stringify(bad))
  t.equal(live(token('run', '0198-abc_D')), 'live.0198-abc_D')
  t.equal(chunk(token('run', 'r'), blockOf(2048)), 'chunk.r.2')
})

t.test('event ids name their attempt', async t => {
  t.same([0, 999_999_999, 1_000_000_000, 2_000_000_001].map(attemptOf), [1, 1, 2, 3])
  t.same([1, 2, 3].map(firstIdOf), [0, 1_000_000_000, 2_000_000_000])
})

t.test('every error has a status and a sentence', async t => {
  for (const [code, { status, sentence }] of Object.entries(ERRORS)) t.ok(status >= 400 && sentence.length > 3, code)
  t.equal(fail('not_found').message, 'Not found')
  t.equal(fail('not_found', 'x').status, 404)
})

t.test('head and parts come out as they went in', async t => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.array(fc.uint8Array()), (head, parts) => {
      const { head: back, rest } = unpack(pack({ head }, parts))
      const cut = cutter(rest)
      t.strictSame(back, JSON.parse(JSON.stringify({ head })))
      for (const part of parts)
        if (!Buffer.from(part).equals(Buffer.from(cut(part.length)))) throw new Error('a part differs')
      if (rest.length !== parts.reduce((sum, part) => sum + part.length, 0)) throw new Error('bytes left over')
    }),
    { numRuns: 50 },
  )
  const whole = pack({ a: 1 }, [new Uint8Array(10)])
  t.throws(() => unpack(whole.subarray(0, 3)), RangeError)
  t.throws(() => unpack(whole.subarray(0, 8)), RangeError)
  t.throws(() => cutter(unpack(whole).rest)(11), RangeError)
})

t.test('config: defaults, environment, what is given, and refusals', async t => {
  const plain = readConfig({})
  for (const [name, { default: value }] of Object.entries(SETTINGS))
    t.equal(plain[name as keyof typeof plain], value, name)
  t.equal(readConfig({ PORT: '3000' }).port, 3000)
  t.equal(readConfig({ PORT: '3000' }, { port: 4000 }).port, 4000)
  t.equal(readConfig({ WEFT_INSECURE: 'yes' }).insecure, true)
  t.throws(() => readConfig({ PORT: 'many' }), /PORT must be a number of at least 0, not "many"/)
  t.throws(() => Object.assign(plain, { port: 1 }), TypeError)
})

t.test('ids', async t => {
  t.ok(isUuid('fe096781-5601-53d2-b2f6-0d3403f7e9ca'))
  for (const bad of ['', 'x', 'fe096781-5601-53d2-b2f6-0d3403f7e9c', 'fe096781-5601-53d2-b2f6-0d3403f7e9ca '])
    t.notOk(isUuid(bad), bad)
})

t.test('run payloads: null is absent, unknown fields pass, wrong types do not', async t => {
  t.ok(
    validateRunCreate({
      assistant_id: 'agent',
      input: null,
      command: null,
      config: null,
      stream_mode: null,
      streamMode: 1,
    }).success,
  )
  t.ok(
    validateRunCreate({ assistant_id: 'agent', stream_mode: ['values', 'custom'], command: { resume: null } }).success,
  )
  for (const bad of [
    {},
    { assistant_id: 1 },
    { assistant_id: 'a', stream_mode: 'x' },
    { assistant_id: 'a', stream_resumable: 'yes' },
    { assistant_id: 'a', metadata: [] },
    { assistant_id: 'a', after_seconds: -1 },
    { assistant_id: 'a', webhook: '' },
  ]) {
    t.notOk(validateRunCreate(bad).success, JSON.stringify(bad))
  }
})
