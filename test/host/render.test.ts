import { AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage } from '@langchain/core/messages'
import t from 'tap'
import { errorOf, render } from '../../workers/host/render.js'

const back = (value: unknown) => JSON.parse(render(value))

t.test('plain values render like JSON.stringify', async t => {
  for (const value of [null, 1, 'a', true, [], {}, [1, [2]], { a: { b: [null] } }, new Date(0)])
    t.equal(render(value), JSON.stringify(value))
  t.equal(render({ a: undefined, b: [undefined] }), '{"b":[null]}')
})

t.test('undefined, functions and symbols at the top level become null', async t => {
  for (const value of [undefined, () => 1, Symbol('a')]) t.equal(render(value), 'null')
})

t.test('messages are flat at every depth', async t => {
  const tool = new ToolMessage({ content: 't', tool_call_id: 'c', name: 'n', artifact: { a: 1 }, status: 'error' })
  const ai = new AIMessage({ content: 'a', id: '2', tool_calls: [{ name: 'x', args: { y: 1 }, id: 'c' }] })
  const flat = back({
    messages: [new HumanMessage({ content: 'h', id: '1' }), ai, tool, new RemoveMessage({ id: '3' })],
  })
  t.match(flat.messages, [
    { type: 'human', content: 'h', id: '1', additional_kwargs: {}, response_metadata: {} },
    { type: 'ai', content: 'a', id: '2', tool_calls: [{ name: 'x', args: { y: 1 }, id: 'c' }], invalid_tool_calls: [] },
    { type: 'tool', content: 't', tool_call_id: 'c', name: 'n', artifact: { a: 1 }, status: 'error' },
    { type: 'remove', id: '3' },
  ])
  t.notMatch(render([ai]), /"lc"|"kwargs"|lc_/)
  const chunk = new AIMessageChunk({
    content: [{ type: 'text', text: 'a' }],
    tool_call_chunks: [{ name: 'x', args: '{', index: 0 }],
  })
  t.match(back([chunk])[0], {
    type: 'ai',
    content: [{ type: 'text', text: 'a' }],
    tool_call_chunks: [{ name: 'x', args: '{' }],
  })
})

t.test('a flat message has every member of the form that the library renders', async t => {
  const message = new AIMessageChunk({
    content: 'a',
    id: 'i',
    name: 'n',
    usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
  })
  const { type, data } = message.toDict()
  t.match(back(message), { ...data, type })
})

t.test('lone surrogates become U+FFFD, pairs and escaped text stay', async t => {
  t.equal(back('a\ud800b'), 'a\ufffdb')
  t.equal(back({ '\udfff': ['\ud83d\ude00', '\\ud800'] })['\ufffd'].join(), '\ud83d\ude00,\\ud800')
  t.equal(back(`\\\ud800`), '\\\ufffd')
})

t.test('values that JSON lacks', async t => {
  t.same(
    back({
      big: 2n ** 70n,
      map: new Map<unknown, unknown>([
        ['a', new Set([1n])],
        [2, 'b'],
      ]),
    }),
    {
      big: '1180591620717411303424',
      map: { a: ['1'], 2: 'b' },
    },
  )
  t.equal(back(new Uint8Array([1, 2])), 'AQI=')
  t.same(back([new RangeError('far')]), [{ error: 'RangeError', message: 'far' }])
  t.same(back({ toJSON: () => ({ in: new HumanMessage('x') }) }).in.content, 'x')
})

t.test('cycles and deep values end', async t => {
  const ring: { [key: string]: unknown } = { a: 1 }
  ring.list = [ring, 2n]
  t.same(back(ring), { a: 1, list: ['[Circular]', '2'] })
  const twice = { x: 1n }
  t.same(back([twice, twice]), [{ x: '1' }, { x: '1' }], 'the same object twice is no cycle')
  let deep: unknown = 'end'
  for (let i = 0; i < 500; i++) deep = [deep]
  t.equal(render(deep), `${'['.repeat(500)}"end"${']'.repeat(500)}`)
  for (let i = 0; i < 100_000; i++) deep = [deep]
  t.match(render(deep), /Too deep/)
})

t.test('a key named __proto__ stays a key', async t => {
  const text = '{"__proto__":{"a":1},"b":{"__proto__":"x"}}'
  t.equal(render(JSON.parse(text)), text)
  const copied = JSON.parse(text)
  copied.big = 1n
  t.equal(render(copied), '{"__proto__":{"a":1},"b":{"__proto__":"x"},"big":"1"}')
  t.equal(({} as { a?: number }).a, undefined)
})

t.test('errors become a class name and a message', async t => {
  class Mine extends Error {}
  t.same(errorOf(new Mine('a')), { error: 'Mine', message: 'a' })
  t.same(errorOf(Object.assign(new Error('b'), { name: 'Named' })), { error: 'Named', message: 'b' })
  t.same(errorOf('text'), { error: 'Error', message: 'text' })
  t.same(errorOf(undefined), { error: 'Error', message: 'undefined' })
  t.same(errorOf(7n), { error: 'Error', message: '7' })
  class Strange {
    code = 7
    pregelTaskId = 'the mark of the library'
  }
  t.same(errorOf(new Strange()), { error: 'Strange', message: '{"code":7}' })
  t.same(errorOf({ code: 7 }), { error: 'Error', message: '{"code":7}' })
  t.same(errorOf(Object.create(null)), { error: 'Error', message: '{}' })
  t.same(errorOf({ message: 'like' }), { error: 'Object', message: 'like' })
  const marked = (thrown: unknown) => {
    try {
      ;(thrown as { pregelTaskId: string }).pregelTaskId = 'id'
    } catch (error) {
      return errorOf(error)
    }
  }
  for (const thrown of ['two\nlines', "it's", '', 0, false, null, undefined])
    t.same(marked(thrown), { error: 'Error', message: String(thrown) }, 'what the library could not mark')
})
