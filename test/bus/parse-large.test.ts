import t from 'tap'
import { parseLarge } from '../../bus/decode.js'

t.test('a value with too many objects is not parsed', async t => {
  for (const text of ['[{},[],{}]', '{"a":1,"b":{"c":2}}'])
    t.throws(() => parseLarge(Buffer.from(text), '', 3), { code: 'too_large' })
  t.same(parseLarge('"next":["a{:[","\\"{{{{{"]}', '{', 3), { next: ['a{:[', '"{{{{{'] })
  t.equal(parseLarge<number[]>(Buffer.from(`[${'1,'.repeat(1_000)}1]`), '', 3).length, 1_001, 'numbers are not counted')
})
