import t from 'tap'
import { decodeFields } from '../../bus/decode.js'
import { validateDeploymentCreate } from '../../schemas/deployments.js'
import { InvalidFields } from '../../schemas/errors.js'
import { problemsOf, readable } from '../../schemas/problems.js'
import { openQuery, pathIds } from '../../workers/resources/query.js'

t.test('types in words', async t => {
  const rows: [string, string][] = [
    ['(string | null | undefined)', 'a text'],
    ['string & MaxLength<10>', 'a text of at most 10 characters'],
    ['(string & MinLength<1> & MaxLength<255>)', 'a text of 1 to 255 characters'],
    ['string & MinLength<1>', 'a text of at least 1 character'],
    ['string & Format<"uuid">', 'a UUID'],
    ['(string & Pattern<"^(a|b) \\"c\\"$">)', 'a text that matches ^(a|b) "c"$'],
    ['("dev" | "prod" | null)', '"dev" or "prod"'],
    ['(boolean | null | undefined)', 'true or false'],
    ['number & Type<"uint32">', 'a whole number of at least 0'],
    ['(number & Type<"uint32"> & Minimum<1> & Maximum<100>)', 'a whole number from 1 to 100'],
    ['number & Maximum<8>', 'a number up to 8'],
    ['(Array<Secret> | null)', 'a list'],
    ['DeploymentCreate', 'an object'],
    ['(number | string)', 'a number or a text'],
  ]
  for (const [expected, wanted] of rows) t.equal(readable(expected), wanted, expected)
})

t.test('places: names, numbers, and names that are no words', async t => {
  const [one] = problemsOf([{ path: '$input.a[3]["x-\\"y"].b', expected: 'string', value: 7 }])
  t.same(one, { loc: ['body', 'a', 3, 'x-"y', 'b'], msg: 'expected a text', type: 'string_type' })
  const [gone] = problemsOf([{ path: '$input.a', expected: '(string | null)', value: undefined }], 'query')
  t.same(gone, { loc: ['query', 'a'], msg: 'expected a text, got nothing', type: 'missing' })
  t.equal(problemsOf(Array.from({ length: 500 }, () => ({ path: '$input', expected: 'x', value: 1 }))).length, 100)
})

t.test('a body: all that is wrong at once, and nothing of it quoted', async t => {
  const read = (text: string) => {
    try {
      return decodeFields(Buffer.from(text), validateDeploymentCreate)
    } catch (error) {
      return error as InvalidFields
    }
  }
  const many = read('{"name":7,"source":"canary","secrets":[{"name":"A","value":{"a":"canary"}}]}') as InvalidFields
  t.ok(many instanceof InvalidFields)
  t.equal(many.status, 422)
  t.same(
    many.problems.map(({ loc }) => loc.join('.')),
    ['body.name', 'body.source', 'body.source_config', 'body.source_revision_config', 'body.secrets.0.value'],
  )
  t.notMatch(many.body, /canary/)
  t.match(read('{canary'), { code: 'bad_request', message: 'The body is not valid JSON' })
  t.match(read(''), { code: 'invalid' })
})

t.test('queries', async t => {
  const query = openQuery('limit=007&offset=3&flag=YES&ids=,,&word=&many=a,b&many=c')
  t.same(query.page(), { limit: 7, offset: 3 })
  t.equal(query.flag('flag'), true)
  t.equal(query.flag('none'), null)
  t.equal(query.ids('ids'), null)
  t.equal(query.text('word'), null)
  t.same(query.someOf('many', ['a', 'b', 'c']), ['a', 'b', 'c'])
  query.done()
  const bad = openQuery('limit=1e3&offset=99999999999999999&flag=x&one=d&many=a,d&ids=1')
  bad.page()
  bad.flag('flag')
  bad.oneOf('one', ['a'])
  bad.someOf('many', ['a'])
  bad.ids('ids')
  t.same(
    placesOf(() => bad.done()),
    ['limit', 'offset', 'flag', 'one', 'many', 'ids'].map(name => `query.${name}`),
  )
  const id = '6BA7B821-9DAD-11d1-80b4-00c04fd430c8'
  t.same(pathIds({ a: id }, 'a'), [id.toLowerCase()])
  t.same(
    placesOf(() => pathIds({ a: id, b: 'x' }, 'a', 'b')),
    ['path.b'],
  )
})

/** Where the mistakes are that the work throws. */
function placesOf(work: () => unknown): string[] {
  try {
    work()
    return []
  } catch (error) {
    return (error as InvalidFields).problems.map(({ loc }) => loc.join('.'))
  }
}
