/** The tour with an application that needs no other packages, and the wire forms of the fake model. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { copyOf, install } from './install.js'
import { replyTo } from './model/answer.js'
import { startModel } from './model/server.js'
import { tokens } from './model/tokens.js'
import { optionsOf } from './options.js'
import { inputOf, sampleOf } from './sample.js'
import { APPLICATIONS } from './table.js'
import { stepNames } from './tour.js'
import { visit } from './visit.js'

t.setTimeout(120_000)

t.test('an application of the table passes every step', async t => {
  const application = APPLICATIONS.find(({ offline }) => offline)!
  const installed = await install(application)
  t.teardown(() => installed.remove())
  t.same(await visit(installed, application), [{ graph: 'agent', passed: stepNames, failed: null }])
})

t.test('a step that fails is named with its sentence', async t => {
  const application = APPLICATIONS.find(({ offline }) => offline)!
  const installed = await install(application)
  t.teardown(() => installed.remove())
  const [row] = await visit(installed, { calls: ['call nothing'] })
  t.same(row!.failed, { step: 'tool calls', why: '"call nothing" called no tool' })
})

t.test('the fake model answers in each wire form, whole and as a stream', async t => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const tool = { name: 'add', description: 'Adds.' }
  const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
  const asked = { model: 'fake', messages: [{ role: 'user', content: 'call add {"a":7}' }] }
  const bodies: [path: string, body: object][] = [
    ['chat/completions', { ...asked, tools: [{ type: 'function', function: { ...tool, parameters: schema } }] }],
    ['responses', { model: 'fake', input: asked.messages, tools: [{ type: 'function', ...tool, parameters: schema }] }],
    ['messages', { ...asked, tools: [{ ...tool, input_schema: schema }] }],
  ]
  for (const [path, body] of bodies)
    for (const stream of [false, true]) {
      const response = await fetch(`${model.url}/v1/${path}`, {
        method: 'POST',
        body: JSON.stringify({ ...body, stream }),
      })
      t.match(response.headers.get('content-type'), stream ? 'text/event-stream' : 'application/json')
      t.match(await response.text(), /"name":"add"/, `${path} ${stream ? 'as a stream' : 'whole'} calls the tool`)
    }
  const embedded = { method: 'POST', body: JSON.stringify({ input: ['a', 'b'], dimensions: 4 }) }
  t.match(await (await fetch(`${model.url}/v1/embeddings`, embedded)).json(), {
    data: [{ embedding: [97, 0, 0, 0] }, {}],
  })
})

t.test('the table of tokens that programs in Python would download', async t => {
  // The digest that `tiktoken` compares.
  const digest = '223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7'
  t.equal(createHash('sha256').update(tokens()).digest('hex'), digest)
})

t.test('a copy of a folder leaves out its lock files when they shall not count', async t => {
  const folder = t.testdir({ 'langgraph.json': '{}', 'yarn.lock': '', 'agent.py': '' })
  for (const fresh of [false, true]) {
    const copy = await copyOf(folder, fresh)
    t.teardown(() => copy.remove())
    t.same(readdirSync(copy.folder), ['agent.py', 'langgraph.json', ...(fresh ? [] : ['yarn.lock'])])
  }
  t.throws(() => optionsOf(['--fresh']), { message: /--from/ })
})

t.test('the official server takes rows of the table only', async t => {
  t.match(optionsOf(['--official', '--only', 'python/swarm']), { official: true })
  t.match(optionsOf(['--from', '.']), { from: '.', fresh: false })
  t.throws(() => optionsOf(['--official', '--from', '.']), { message: /leave out --from/ })
})

t.test('the official server for JavaScript gets a file of TypeScript', async t => {
  const installed = await install(APPLICATIONS.find(({ offline }) => offline)!, true)
  t.teardown(() => installed.remove())
  const { graphs } = JSON.parse(readFileSync(join(installed.folder, 'langgraph.json'), 'utf8'))
  t.same(graphs, { agent: './react-agent.ts:graph' })
  t.ok(existsSync(join(installed.folder, 'react-agent.ts')))
})

t.test('the last message decides what the model says', async t => {
  const tools = [{ name: 'add', schema: { type: 'object', properties: { a: { type: 'integer' } } } }]
  const last = { role: 'user', text: 'call add' }
  t.same(replyTo({ last, tools }), { tool: 'add', args: { a: 1 } })
  t.same(replyTo({ last, tools: [] }), { text: 'This answers: call add' }, 'no such tool')
  t.same(replyTo({ last: { ...last, role: 'tool' }, tools }), { text: 'This answers: call add' })
  const two = [...tools, { name: 'end', schema: {} }]
  t.same(replyTo({ last: { role: 'user', text: 'hello' }, tools: two, forced: true }), { tool: 'add', args: { a: 1 } })
  t.same(replyTo({ last: { ...last, role: 'tool' }, tools: two, forced: true }), { tool: 'end', args: {} })
})

t.test('values that fit a schema', async t => {
  const schema = {
    $defs: { Kind: { enum: ['x', 'y'] } },
    type: 'object',
    required: ['kind', 'list', 'n'],
    properties: {
      kind: { $ref: '#/$defs/Kind' },
      list: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'null' }] } },
      n: { type: 'number', minimum: 3 },
      other: { type: 'string' },
    },
  }
  t.same(sampleOf(schema), { kind: 'x', list: ['one'], n: 3 })
  const links = { type: 'object', properties: { url: { type: 'string' }, at: { type: 'string', format: 'uri' } } }
  t.same(sampleOf(links, 'http://page'), { url: 'http://page', at: 'http://page' }, 'a page that exists')
  t.same(inputOf({ type: 'object', properties: { topic: { type: 'string' } } }, 'hi'), { topic: 'hi' })
})
