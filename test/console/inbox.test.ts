/** The inbox: what waits for a person over all graphs, answered in place, and by the command. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { root } from '../../cli/root.js'
import { runWeft } from '../helpers/command.js'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(180_000)

const folder = mkdtempSync(join(tmpdir(), 'weft-inbox-'))
const graphs = {
  asker: join(root, 'test/apps/console/graph.mjs:asker'),
  clerk: join(root, 'test/apps/console/graph.mjs:clerk'),
  assistant: join(root, 'examples/approval/agent.ts:assistant'),
}
let stage: Stage
let client: Client
t.before(async () => {
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs }))
  stage = await openStage({ OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' }, folder)
  client = new Client({ apiUrl: stage.cluster.url })
})
t.teardown(async () => {
  await stage?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** A thread whose graph has asked. */
async function asked(graph: string, input: object, title: string): Promise<string> {
  const { thread_id } = await client.threads.create({ metadata: { title } })
  await client.runs.wait(thread_id, graph, { input: { ...input } })
  return thread_id
}
const ask = (title: string, ...questions: unknown[]) => asked('asker', { ask: questions }, title)
const human = (content: string) => ({ messages: [{ role: 'user', content }] })

async function ended(thread_id: string): Promise<{ [name: string]: unknown }> {
  await until(async () => (await client.threads.get(thread_id)).status === 'idle')
  return (await client.threads.getState<{ [name: string]: unknown }>(thread_id)).values
}

t.test('an empty inbox says so', async t => {
  const page = await stage.open('/inbox')
  await page.getByRole('heading', { name: 'Nothing waits' }).waitFor()
  t.equal(await page.getByRole('link', { name: 'Inbox' }).textContent(), 'Inbox', 'without a count')
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test('questions of every form are answered in place', async t => {
  const ids = {
    yes: await ask('a trip', 'May I book the trip?'),
    text: await ask('a name', { question: 'Who are you?' }),
    choice: await ask('a colour', { message: 'Which colour?', choices: ['red', 'blue'] }, 'And the size?'),
    form: await ask('an address', {
      question: 'Where to?',
      schema: { type: 'object', properties: { city: { type: 'string' }, floor: { type: 'integer' } } },
    }),
    json: await ask('anything', { n: 1, deep: { list: [1, 2] } }),
    script: await ask('for a script', {
      actionRequests: [
        { name: 'pay', args: { amount: 5 } },
        { name: 'ask_user', args: {} },
      ],
      reviewConfigs: [
        { actionName: 'pay', allowedDecisions: ['edit'] },
        { actionName: 'ask_user', allowedDecisions: ['respond'] },
      ],
    }),
    clerk: await asked('clerk', human('send'), 'a mail'),
  }
  const page = await stage.open('/inbox')
  const row = (title: string) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name: title }) })
  const badge = page.getByRole('link', { name: /^Inbox/ })
  await page.getByRole('link', { name: 'Inbox 7 waiting' }).waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'inbox')

  await row('a trip').getByText('asker').waitFor()
  await row('a trip').getByRole('button', { name: 'Approve' }).click()
  await page.getByRole('status').filter({ hasText: 'Answered “a trip”' }).waitFor()
  await row('a trip').waitFor({ state: 'detached' })
  t.match(await ended(ids.yes), { answers: [true] })

  await row('a name').getByLabel('Answer').fill('Ada')
  await row('a name').getByRole('button', { name: 'Answer', exact: true }).click()
  t.match(await ended(ids.text), { answers: ['Ada'] })

  t.equal(await row('a colour').getByRole('button', { name: 'Approve' }).count(), 0)
  await row('a colour').getByRole('button', { name: 'blue' }).click()
  await row('a colour').getByText('And the size?').waitFor()
  t.equal((await client.threads.get(ids.choice)).status, 'interrupted', 'a node that asks again waits, too')
  await row('a colour').getByRole('button', { name: 'Reject' }).click()
  t.match(await ended(ids.choice), { answers: ['blue', false] })

  await row('an address').getByLabel('city').fill('Rome')
  await row('an address').getByLabel('floor').fill('2')
  await row('an address').getByRole('button', { name: 'Answer', exact: true }).click()
  t.match(await ended(ids.form), { answers: [{ city: 'Rome', floor: 2 }] })

  await row('anything').getByRole('button', { name: 'Answer with JSON' }).click()
  await row('anything').getByLabel('Answer as JSON').fill('{"ok": [1]}')
  await row('anything').getByRole('button', { name: 'Answer', exact: true }).click()
  t.match(await ended(ids.json), { answers: [{ ok: [1] }] })

  const script = row('for a script')
  t.equal(await script.getByRole('button', { name: /Approve|Reject/ }).count(), 0, 'only what is allowed')
  await script.getByRole('button', { name: 'Edit' }).click()
  await script.getByLabel('Arguments').fill('{"amount": 4}')
  await script.getByRole('button', { name: 'Approve as edited' }).click()
  await script.getByRole('button', { name: 'Respond' }).click()
  await script.getByLabel('Response').fill('tomorrow')
  t.same(await seriousDefects(page), [])
  await photograph(page, 'inbox-actions')
  await script.getByRole('button', { name: 'Send the response' }).click()
  t.same((await ended(ids.script)).answers, [
    {
      decisions: [
        { type: 'edit', editedAction: { name: 'pay', args: { amount: 4 } } },
        { type: 'respond', message: 'tomorrow' },
      ],
    },
  ])

  await row('a mail').getByRole('button', { name: 'Reject' }).click()
  await row('a mail').getByLabel('Reason').fill('not today')
  await row('a mail').getByRole('button', { name: 'Reject', exact: true }).click()
  t.match(
    JSON.stringify((await ended(ids.clerk)).messages),
    /\{\\"type\\":\\"reject\\",\\"message\\":\\"not today\\"\}/,
  )

  await page.getByRole('heading', { name: 'Nothing waits' }).waitFor()
  await page.getByRole('link', { name: 'Inbox', exact: true }).waitFor()
  t.equal(await badge.textContent(), 'Inbox')
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test(
  'an answer goes to the assistant that asked, one at a time, and the list is filtered by the address',
  async t => {
    const own = await client.assistants.create({ graphId: 'asker', name: 'second asker' })
    const waits = await asked(own.assistant_id, { ask: ['Go on?'] }, 'of the second')
    const other = await asked('clerk', human('send'), 'of the clerk')
    const page = await stage.open('/inbox')
    const row = (title: string) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name: title }) })
    await row('of the clerk').waitFor()
    await page.getByLabel('Graph').selectOption('asker')
    await row('of the clerk').waitFor({ state: 'detached' })
    t.match(page.url(), /#\/inbox\?graph=asker$/)
    await page.reload()
    await row('of the second').waitFor()
    t.equal(await row('of the clerk').count(), 0)

    // Another person answers first; what is sent from here is refused while that run goes on.
    const before = await client.runs.list(waits)
    await row('of the second').getByRole('button', { name: 'Approve' }).click()
    t.match(await ended(waits), { answers: [true] })
    const runs = await client.runs.list(waits)
    t.equal(runs.length, before.length + 1)
    t.equal(runs[0]!.assistant_id, own.assistant_id)
    await page.getByRole('link', { name: 'Threads' }).click()
    t.match(page.url(), /#\/threads$/, 'another page has no filter of this one')
    t.same(stage.errors(), [])

    const said = await runWeft(['threads', 'answer', other, '--reject', 'no'], { WEFT_URL: stage.cluster.url })
    t.match(said, { code: 0, stdout: /^answered / })
    t.match(JSON.stringify((await ended(other)).messages), /\{\\"type\\":\\"reject\\",\\"message\\":\\"no\\"\}/)
    await page.context().close()
  },
)

t.test('the example with approval is answered by the buttons', async t => {
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'assistant', { input: human('write to ada: hello') })
  const page = await stage.open('/inbox')
  const row = page.getByRole('listitem').filter({ hasText: 'send_email' })
  await row.getByRole('link', { name: 'write to ada: hello' }).waitFor()
  await row.getByRole('button', { name: 'Edit' }).click()
  await row.getByLabel('Arguments').fill('{"to": "ada@example.com", "text": "Hello, Ada!"}')
  await row.getByRole('button', { name: 'Approve as edited' }).click()
  t.match(JSON.stringify(await ended(thread_id)), /The e-mail: sent to ada@example.com: Hello, Ada!/)
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test('a thread that stopped without a question goes on', async t => {
  const { thread_id } = await client.threads.create({ metadata: { title: 'a breakpoint' } })
  await client.runs.wait(thread_id, 'clerk', { input: human('hello'), interruptBefore: ['work'] })
  const page = await stage.open('/inbox')
  await page.getByRole('button', { name: 'Continue' }).click()
  t.match(JSON.stringify(await ended(thread_id)), /tone undefined/)
  t.same(stage.errors(), [])
})

t.test('without a connection it says so, and not that nothing waits', async t => {
  const page = await stage.open('/overview')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.route('**/threads/search', route => route.abort())
  await page.getByRole('link', { name: /^Inbox/ }).click()
  await page.getByRole('alert').getByText('The server cannot be reached').waitFor()
  t.equal(await page.getByText('Nothing waits').count(), 0)
  stage.errors()
})
