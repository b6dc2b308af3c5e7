/** The filters of authorization handlers (docs/spec/auth.md#filters). */
import t from 'tap'
import { compileFilter, filterKeys } from '../../schemas/auth/filter.js'
import { keysOf } from '../../schemas/contains.js'
import type { JsonObject } from '../../schemas/json.js'

const ALICE: JsonObject = { owner: 'alice', team: ['red', 'blue'], level: 0, flag: false, none: null, at: { x: 1 } }

const PASS: [string, JsonObject][] = [
  ['{} restricts nothing', {}],
  ['a value', { owner: 'alice' }],
  ['$eq', { owner: { $eq: 'alice' } }],
  ['0', { level: 0 }],
  ['$eq 0', { level: { $eq: 0 } }],
  ['$eq false', { flag: { $eq: false } }],
  ['$eq null on null', { none: { $eq: null } }],
  ['an object, deeply equal', { at: { x: 1 } }],
  ['a list, deeply equal', { team: ['red', 'blue'] }],
  ['$contains', { team: { $contains: 'red' } }],
  ['$contains all', { team: { $contains: ['blue', 'red'] } }],
  ['$contains nothing of a list', { team: { $contains: [] } }],
  ['several members', { owner: 'alice', level: 0 }],
  ['$or', { $or: [{ owner: 'bob' }, { team: { $contains: 'red' } }] }],
  ['$and', { $and: [{ owner: 'alice' }, { level: 0 }] }],
  ['$or in $and', { $and: [{ $or: [{ owner: 'bob' }, { owner: 'alice' }] }] }],
]
const REFUSED: [string, JsonObject][] = [
  ['another value', { owner: 'bob' }],
  ['a missing member', { absent: 'x' }],
  ['null on a missing member', { absent: null }],
  ['$eq null on a missing member', { absent: { $eq: null } }],
  ['$eq "" on a value', { owner: { $eq: '' } }],
  ['$eq 0 on a text', { owner: { $eq: 0 } }],
  ['false is not 0', { level: false }],
  ['$contains on a text', { owner: { $contains: 'alice' } }],
  ['$contains of what is missing', { team: { $contains: ['red', 'green'] } }],
  ['$contains [] on a text', { owner: { $contains: [] } }],
  ['one of several members', { owner: 'alice', level: 1 }],
  ['$or of none', { $or: [{ owner: 'bob' }, { owner: 'carol' }] }],
  ['$and of one', { $and: [{ owner: 'alice' }, { level: 1 }] }],
  ['$or beside a member', { owner: 'bob', $or: [{ level: 0 }] }],
  ['an inherited member', { constructor: 'x' }],
  ['__proto__', JSON.parse('{"__proto__": "x"}')],
]
const BROKEN: [string, unknown][] = [
  ['an unknown operator', { owner: { $ne: 'bob' } }],
  ['an unknown operator at the top', { $nor: [{ owner: 'bob' }] }],
  ['two operators', { owner: { $eq: 'alice', $contains: 'x' } }],
  ['an operator beside a member', { owner: { $eq: 'alice', x: 1 } }],
  ['$or of nothing', { $or: [] }],
  ['$or of no list', { $or: { owner: 'alice' } }],
  ['$and of nothing', { $and: [] }],
  ['$or of a text', { $or: ['alice'] }],
  ['an unknown operator below $or', { $or: [{ owner: 'alice' }, { owner: { $gt: 1 } }] }],
  ['a member without a value', { owner: undefined }],
  ['an operator without an operand', { owner: { $eq: undefined } }],
  ['a list', []],
  ['a text', 'alice'],
  ['null', null],
]

t.test('a document passes', async t => {
  for (const [what, filter] of PASS) t.equal(compileFilter(filter)(ALICE), true, what)
})

t.test('a document is refused', async t => {
  for (const [what, filter] of REFUSED) t.equal(compileFilter(filter)(ALICE), false, what)
})

t.test('what is no filter is an error, never a pass', async t => {
  for (const [what, filter] of BROKEN) t.throws(() => compileFilter(filter), { code: 'internal' }, what)
  let deep: JsonObject = { owner: 'alice' }
  for (let i = 0; i < 1_000; i++) deep = { $and: [deep] }
  t.throws(() => compileFilter(deep), { code: 'internal' }, 'endless nesting')
})

t.test('every document that passes has the keys of the filter', async t => {
  const stored = new Set(keysOf(ALICE))
  for (const [what, filter] of PASS)
    t.ok(
      filterKeys(filter).every(key => stored.has(key)),
      what,
    )
  t.ok(filterKeys({ owner: 'alice' }).length > 0)
  t.same(filterKeys({ $or: [{ owner: 'alice' }] }), [])
})
