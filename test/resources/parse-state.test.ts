import t from 'tap'
import { parseState } from '../../workers/resources/state/parse-state.js'

t.test('a state with too many objects is not parsed', async t => {
  for (const text of ['[{},[],{}]', '{"a":1,"b":{"c":2}}'])
    t.throws(() => parseState(Buffer.from(text), '', 3), { code: 'too_large' })
  t.same(parseState('"next":["a{:[","\\"{{{{{"]}', '{', 3), { next: ['a{:[', '"{{{{{'] })
  t.equal(parseState<number[]>(Buffer.from(`[${'1,'.repeat(1_000)}1]`), '', 3).length, 1_001, 'numbers are not counted')
})
