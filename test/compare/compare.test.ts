/** The table and the comparer of `npm run compare`; the comparison itself needs the official servers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { casesOf } from './cases.js'
import { ABSENT, compare, compareAnswers, openIds } from './differ.js'
import { KNOWN, knownOf } from './known.js'
import { optionsOf } from './options.js'

const [A, B, C, D] = ['a', 'b', 'c', 'd'].map(letter => `${letter.repeat(8)}-0000-4000-8000-${letter.repeat(12)}`) as [
  string,
  string,
  string,
  string,
]
const differ = (ours: unknown, theirs: unknown) => compare(ours, theirs, openIds()).map(({ path }) => path)

t.test('ids are equal when they stand for each other everywhere', async t => {
  t.same(differ([A, B, A], [C, D, C]), [])
  t.same(differ([A, B, A], [C, D, D]), ['.2'], 'another one of theirs')
  t.same(differ([A, B], [C, C]), ['.1'], 'two of ours for one of theirs')
  t.same(differ(`/threads/${A}/runs/${B}`, `/threads/${C}/runs/${D}`), [])
  t.same(differ({ [A]: 1, [`inner:${B}`]: 2 }, { [`inner:${D}`]: 2, [C]: 1 }), [], 'names')
  t.same(differ({ [A]: 1 }, { [C]: 2 }), ['<id>'])
})

t.test('questions of nodes beside each other have no order', async t => {
  const asked = (...ids: string[]) => ({
    __interrupt__: ids.map(id => ({ id, value: id === A || id === C ? 'a' : 'b' })),
  })
  t.same(differ(asked(A, B), asked(D, C)), [])
  t.same(differ(asked(A, B), asked(C)), ['__interrupt__'])
})

t.test('times are equal, other texts are not', async t => {
  t.same(differ('2026-01-02T03:04:05.678Z', '2026-01-02T03:04:05.678901+00:00'), [])
  t.same(differ('2026-01-02T03:04:05Z', null), [''])
  t.same(differ({ a: 'x' }, { a: 'y' }), ['a'])
})

t.test('members, lists and numbers', async t => {
  t.same(compare({ a: 1 }, { a: 1, b: null }, openIds()), [{ path: 'b', ours: ABSENT, theirs: null }])
  t.same(differ([1, 2], [1]), ['.1'])
  t.same(differ({ 0: 1 }, [1]), [''], 'an object is no list')
  t.same(differ({ langgraph_version: '1', kwargs: { a: 1 } }, { langgraph_version: '2' }), [], 'facts about the server')
})

t.test('of errors the form is compared, not the sentence', async t => {
  const error = (status: number, body: unknown) => ({ status, headers: {}, body })
  t.same(compareAnswers(error(404, { detail: 'a' }), error(404, { detail: 'b' }), openIds()), [])
  t.match(compareAnswers(error(404, { detail: 'a' }), error(404, 'b'), openIds()), [{ path: 'form' }])
  t.match(compareAnswers(error(404, { detail: 'a' }), error(422, { detail: 'a' }), openIds()), [{ path: 'status' }])
})

t.test('each known difference is a row of docs/differences.md, and each is found', async t => {
  const rows = [...readFileSync(join(root, 'docs/differences.md'), 'utf8').matchAll(/^\| (.+?) \|/gm)].map(
    ([, row]) => row,
  )
  for (const { row } of KNOWN) t.ok(rows.includes(row), row)
  const difference = { path: 'headers.allow', ours: 'post, options', theirs: 'post' }
  t.equal(knownOf('python', 'wrong/route 1 PUT /threads', difference)?.row, '`Allow` of another method')
  t.equal(knownOf('python', 'wrong/route 1 PUT /threads', { ...difference, path: 'body.text' }), null)
})

t.test('the table has the same cases for a seed, each with a name of its own', async t => {
  for (const language of ['python', 'javascript'] as const) {
    const cases = casesOf(language, 7)
    t.ok(cases.length > 800, `${cases.length} cases`)
    t.same(cases, casesOf(language, 7))
    t.not(JSON.stringify(cases), JSON.stringify(casesOf(language, 8)))
    t.equal(new Set(cases.map(({ name }) => name)).size, cases.length)
  }
})

t.test('wrong options are refused', async t => {
  t.throws(() => optionsOf(['--language', 'go']), /expected python or javascript/)
  t.throws(() => optionsOf(['--seed', 'x']), /expected a whole number/)
  for (const url of ['https://example.com', 'http://example.com', 'here'])
    t.throws(() => optionsOf(['--url', url]), /expected http:\/\/127.0.0.1:PORT/)
  t.match(optionsOf(['--url', 'http://127.0.0.1:1/']), { url: 'http://127.0.0.1:1', languages: ['python'] })
  t.same(optionsOf(['--language', 'python', '--seed', '5'])?.languages, ['python'])
})
