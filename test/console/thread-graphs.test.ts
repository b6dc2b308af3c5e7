/** The console goes on with the graph of a thread: another one only after a question to the person. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

const folder = mkdtempSync(join(tmpdir(), 'weft-graphs-'))
const graphs = {
  clerk: join(root, 'test/apps/console/graph.mjs:clerk'),
  ask: join(root, 'test/apps/basic/graphs.mjs:ask'),
  echo: join(root, 'test/apps/basic/graphs.mjs:echo'),
}
/** How each graph is asked to stop at a question, and where the answer is then. */
const ASKS = {
  clerk: { messages: [{ role: 'user', content: 'send' }] },
  ask: { question: 'really?' },
}
let stage: Stage
t.before(async () => {
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs }))
  stage = await openStage({}, folder)
})
t.teardown(async () => {
  await stage?.close()
  rmSync(folder, { recursive: true, force: true })
})

const send = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
  const answer = await fetch(stage.cluster.url + path, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (await answer.json()) as T
}
const asked = async (graph: keyof typeof ASKS): Promise<string> => {
  const { thread_id } = await send<{ thread_id: string }>('POST', '/threads', {})
  await send('POST', `/threads/${thread_id}/runs/wait`, { assistant_id: graph, input: ASKS[graph] })
  return thread_id
}
/** The graphs of the runs of a thread, the newest first. */
const graphsOf = async (thread_id: string): Promise<unknown[]> =>
  (await send<{ metadata: { graph_id: string } }[]>('GET', `/threads/${thread_id}/runs`)).map(
    ({ metadata }) => metadata.graph_id,
  )
const ended = (thread_id: string) =>
  until(async () => (await send<{ status: string }>('GET', `/threads/${thread_id}`)).status !== 'busy')
const assistant = (page: Page) => page.getByLabel('Assistant')
const nameOf = (page: Page) => assistant(page).locator('option:checked').textContent()
const question = (page: Page) => page.getByRole('region', { name: 'Question' })
/** Answers the next dialog of the page; resolves to what it asks. */
const answerDialog = (page: Page, yes: boolean): Promise<string> =>
  new Promise(resolve =>
    page.once('dialog', dialog => {
      resolve(dialog.message())
      void (yes ? dialog.accept() : dialog.dismiss())
    }),
  )

t.test('an answer goes to the graph that asked, whatever was chosen before', async t => {
  for (const graph of ['clerk', 'ask'] as const)
    for (const usual of ['clerk', 'ask', 'echo'] as const)
      await t.test(`${graph} asks, ${usual} was chosen for the last new thread`, async t => {
        const thread_id = await asked(graph)
        const page = await stage.open('/chat/new')
        await assistant(page).selectOption({ label: usual })
        await page.goto(`${stage.cluster.url}/console#/chat/${thread_id}`)
        await question(page).getByRole('button', { name: 'Approve' }).waitFor()
        t.equal(await nameOf(page), graph)
        await question(page).getByRole('button', { name: 'Approve' }).click()
        await until(async () => (await graphsOf(thread_id)).length === 2)
        await ended(thread_id)
        t.same(await graphsOf(thread_id), [graph, graph])
        t.match(await send('GET', `/threads/${thread_id}`), { status: 'idle', metadata: { graph_id: graph } })
        await page.context().close()
      })
})

t.test('from the inspector', async t => {
  const thread_id = await asked('ask')
  const page = await stage.open(`/threads/${thread_id}`)
  await page.getByRole('button', { name: 'Run from here' }).click()
  await assistant(page).locator('option:checked', { hasText: 'ask' }).waitFor({ state: 'attached' })
  const [asks] = await Promise.all([answerDialog(page, false), assistant(page).selectOption({ label: 'echo' })])
  t.match(asks, /^This thread is one of the graph ask\. Run the graph echo on it\?/)
  t.equal(await nameOf(page), 'ask')
  await page.getByRole('link', { name: 'Open in Chat' }).click()
  await question(page).getByRole('heading', { name: 'really?' }).waitFor()
  t.equal(await nameOf(page), 'ask')
})

t.test('another graph runs on a thread after a question to the person', async t => {
  const thread_id = await asked('clerk')
  const page = await stage.open(`/chat/${thread_id}`)
  await question(page).waitFor()
  await Promise.all([answerDialog(page, false), assistant(page).selectOption({ label: 'echo' })])
  t.equal(await nameOf(page), 'clerk')
  await Promise.all([answerDialog(page, true), assistant(page).selectOption({ label: 'echo' })])
  t.equal(await nameOf(page), 'echo')
  await page.getByText('This thread waits for an answer to the graph clerk.').waitFor()
  t.equal(await question(page).count(), 0, 'the answer cannot be given to it')
  t.same(await seriousDefects(page), [])
  await photograph(page, 'chat-other-graph')
  await page.getByRole('button', { name: 'Go on with clerk' }).click()
  await question(page).waitFor()
  t.equal(await nameOf(page), 'clerk')

  const own = await send<{ assistant_id: string }>('POST', '/assistants', { graph_id: 'clerk', name: 'second clerk' })
  await page.reload()
  await question(page).waitFor()
  await assistant(page).selectOption({ label: 'second clerk' })
  t.ok(await question(page).isVisible(), 'an assistant of the same graph may answer, and is chosen without a question')
  await question(page).getByRole('button', { name: 'Approve' }).click()
  await until(async () => (await graphsOf(thread_id)).length === 2)
  await ended(thread_id)
  t.match(await send('GET', `/threads/${thread_id}`), { status: 'idle', metadata: { assistant_id: own.assistant_id } })
  await page.reload()
  await page.getByLabel('Message').waitFor()
  t.equal(await nameOf(page), 'second clerk')
})

t.test('a thread whose graph is not served says so', async t => {
  const { thread_id } = await send<{ thread_id: string }>('POST', '/threads', { metadata: { graph_id: 'gone' } })
  const page = await stage.open(`/chat/${thread_id}`)
  await page.getByText('The graph gone of this thread is not served now.').waitFor()
  t.equal(await nameOf(page), 'Choose an assistant')
  t.equal(await page.getByLabel('Message').count(), 0)
  const [asks] = await Promise.all([answerDialog(page, true), assistant(page).selectOption({ label: 'clerk' })])
  t.match(asks, /^This thread is one of the graph gone, which is not served now\. Run the graph clerk on it\?/)
  await page.getByLabel('Message').fill('hello')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await page.locator('.message.ai').getByText('tone undefined').waitFor()
  t.same(await graphsOf(thread_id), ['clerk'])
})
