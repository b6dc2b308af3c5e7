import { InMemoryStore } from '@langchain/langgraph-checkpoint'
import t from 'tap'
import { textsOf } from '../../workers/resources/vectors/texts.js'

const VALUE = {
  text: 'one',
  n: 2,
  yes: false,
  nothing: null,
  'odd name': 'x',
  deep: { text: 'two', more: { text: 'three' } },
  list: [{ text: 'four' }, { text: 'five', n: 5 }, 'six', null, ['seven', { text: 'eight' }]],
}

/** The texts that the library embeds. Objects are rendered without blanks here. */
async function reference(path: string): Promise<string[]> {
  const texts: string[] = []
  const embedDocuments = async (some: string[]) => some.map(text => [texts.push(text)])
  const store = new InMemoryStore({ index: { dims: 1, embeddings: { embedDocuments } as never, fields: [path] } })
  await store.put(['a'], 'k', VALUE)
  return texts.map(text => (/^[[{]/.test(text) ? JSON.stringify(JSON.parse(text)) : text))
}

t.test('paths find the same texts as the store of the library', async t => {
  for (const path of [
    ...['text', 'n', 'yes', 'odd name', 'deep.text', 'deep.more.text', 'deep', 'list', 'list[0].text', 'list[-1]'],
    ...['list[1]', 'list[*].text', 'list[*]', 'list[4][0]', 'list[4][1].text', '*', 'deep.*', 'list[*].*'],
    ...['{text,n}', 'deep.{text,more.text}', 'list[*].{text,n}'],
  ])
    t.same(textsOf(VALUE, [path]).sort(), (await reference(path)).sort(), path)
})

t.test('the whole value is its JSON; missing values and repeated texts are left out', async t => {
  t.same(textsOf({ a: 1 }, ['$']), ['{"a":1}'])
  for (const path of ['none', 'text.none', 'nothing', 'list[9]', 'list[-9]', 'n[0]', 'text[*]', '__proto__', 'length'])
    t.same(textsOf(VALUE, [path]), [], path)
  t.same(textsOf({ a: 'x', b: 'x', c: 'y' }, ['a', 'b', 'c', 'a']), ['x', 'y'])
})

t.test('a path that cannot be read, or reaches too many texts, is refused', async t => {
  for (const path of ['', '.', 'a..b', 'a[', 'a[x]', 'a]', '{', '{}', '{a', 'a.{b,{c}}'])
    t.throws(() => textsOf(VALUE, [path]), { code: 'invalid', message: /^index: expected paths as/ }, path)
  const nested = JSON.parse(`${'{"a":'.repeat(40)}"x"${'}'.repeat(40)}`)
  t.throws(() => textsOf(nested, [Array(40).fill('{a,a}').join('.')]), { message: /may reach/ })
  t.throws(() => textsOf({ a: ['x'.repeat(3e6), 'y'.repeat(3e6)] }, ['a[*]']), { message: /characters in all/ })
  t.throws(() => textsOf(VALUE, Array(101).fill('a')), { message: /at most 100 paths/ })
})
