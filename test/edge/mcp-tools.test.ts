import t from 'tap'
import { toolNames, toolSchema } from '../../edge/protocols/mcp-tools.js'

t.test('names are valid, short and unique', async t => {
  const names = (...given: string[]) => [
    ...toolNames(given.map(name => ({ assistant_id: name, graph_id: 'g', name }))).keys(),
  ]
  t.same(names('a', 'a', 'a_2', 'a'), ['a', 'a_2', 'a_2_2', 'a_3'])
  t.same(names('Ünï cödé!', '', '...'), ['_n_c_d_', 'assistant', '_'])
  const [long, second] = names('x'.repeat(100), 'x'.repeat(100))
  t.match([long, second], ['x'.repeat(64), `${'x'.repeat(62)}_2`])
})

t.test('schemas of tools describe messages in short', async t => {
  t.same(toolSchema(null), { type: 'object' })
  t.same(toolSchema({ type: 'string' }), { type: 'object' })
  const plain = {
    type: 'object',
    properties: { a: { type: 'array', items: { $ref: '#/$defs/Own' } } },
    $defs: { Own: {} },
  }
  t.same(toolSchema(plain), plain)
  const ofPython = {
    type: 'object',
    title: 'State',
    properties: {
      messages: {
        title: 'Messages',
        type: 'array',
        items: { oneOf: [{ $ref: '#/$defs/AIMessage' }, { $ref: '#/$defs/ToolMessageChunk' }] },
      },
      last: { anyOf: [{ $ref: '#/$defs/HumanMessage' }, { type: 'null' }] },
    },
    required: ['messages'],
    $defs: { AIMessage: { type: 'object' }, ToolMessageChunk: {}, HumanMessage: {}, ToolCall: {}, UsageMetadata: {} },
  }
  const shown = toolSchema(ofPython)
  t.notOk('$defs' in shown)
  t.notMatch(JSON.stringify(shown), /\$ref/)
  t.match(shown, {
    title: 'State',
    required: ['messages'],
    properties: {
      messages: { title: 'Messages', type: 'array', items: { properties: { role: {}, content: {} } } },
      last: { anyOf: [{ type: 'object', required: ['role', 'content'] }, { type: 'null' }] },
    },
  })
})

t.test('a schema asks for no header with an argument', async t => {
  const region = { type: 'string', 'x-mcp-header': 'Region' }
  t.same(toolSchema({ type: 'object', properties: { region, 'x-mcp-header': { type: 'string' } } }), {
    type: 'object',
    properties: { region: { type: 'string' }, 'x-mcp-header': { type: 'string' } },
  })
})
