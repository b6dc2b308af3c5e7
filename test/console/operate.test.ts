/** Graphs and figures: a graph that lights up, a pool that drains. */
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import t from 'tap'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({ N_JOBS_PER_WORKER: '2' })
})
t.teardown(() => stage?.close())

const send = (path: string, body: unknown) =>
  fetch(stage.cluster.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

t.test('a pool drains before the eyes of a person', async t => {
  const page = await stage.open('/workers')
  const pool = page.getByRole('region', { name: 'Pool default' })
  const figure = (name: string) => pool.getByRole('figure').filter({ hasText: name }).locator('strong')
  await figure('Running').getByText('0 of 2').waitFor()
  t.same(await seriousDefects(page), [])

  const input = { messages: [{ role: 'user', content: 'tell me a story' }] }
  await send(
    '/runs/batch',
    Array.from({ length: 8 }, () => ({ assistant_id: 'agent', input })),
  )
  await figure('Running').getByText('2 of 2').waitFor()
  await figure('Waiting')
    .getByText(/^[1-9]/)
    .waitFor()
  await photograph(page, 'workers')
  await figure('Running').getByText('0 of 2').waitFor({ timeout: 60_000 })
  await figure('Waiting').getByText('0', { exact: true }).waitFor()
  t.ok((await pool.locator('polyline').first().getAttribute('points'))!.split(' ').length > 2, 'the charts have a past')
  const processes = page.getByRole('region', { name: 'Processes' }).getByRole('article')
  await processes.getByText('deployer, edge, graphs, resources').waitFor()
  t.equal(await processes.count(), 1, 'the process of all roles is shown once')
  await processes.getByText(/^Weft \d/).waitFor()
  await processes.getByRole('table', { name: 'Hosts' }).getByRole('row').nth(1).waitFor()
  t.same(stage.errors(), [])
})

const parts = (page: Page) => {
  const drawing = page.getByRole('region', { name: 'Drawing' })
  const node = (name: string) => drawing.locator('g.node', { has: page.getByText(name, { exact: true }) })
  const run = page.getByRole('button', { name: 'Run', exact: true })
  return { drawing, node, run, subgraph: drawing.getByRole('button', { name: 'research' }) }
}

t.test('a graph lights up where it runs', async t => {
  const page = await stage.open('/graphs')
  const { drawing, node, run, subgraph } = parts(page)
  await subgraph.waitFor()
  t.same(await seriousDefects(page), [])
  t.equal(await drawing.locator('.ran').count(), 0)
  await page.getByLabel('Message').fill('research tides')
  await run.click()
  await drawing.locator('.node.running').first().waitFor()
  await run.waitFor()
  for (const name of ['model', 'research']) t.match(await node(name).getAttribute('class'), 'ran')
  t.notMatch(await node('tools').getAttribute('class'), 'ran')
  t.match(await node('model').textContent(), /2 ×/)
  await photograph(page, 'graph')
  await page.getByRole('link', { name: 'Inspect the thread' }).waitFor()
  t.same(stage.errors(), [])
})

t.test('a subgraph opens to a box with its nodes, and closes', async t => {
  const page = await stage.open('/graphs')
  const { drawing, node, run, subgraph } = parts(page)
  await subgraph.waitFor()
  t.equal(await node('write').count(), 0)
  await subgraph.press('Enter')
  await node('write').waitFor()
  t.equal(await drawing.locator('.box').count(), 1)
  t.equal(await node('research').count(), 0, 'its box takes its place')
  await page.getByLabel('Message').fill('research tides')
  await run.click()
  await drawing.locator('.node.ran', { hasText: 'write' }).waitFor()
  await drawing.locator('.node.ran', { hasText: 'plan' }).waitFor()
  await run.waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'graph-open')
  await subgraph.click()
  await node('research').waitFor()
  t.equal(await node('write').count(), 0)
  t.same(stage.errors(), [])
})

t.test('what a run asks is answered beside the drawing', async t => {
  const page = await stage.open('/graphs')
  const { drawing, node, run } = parts(page)
  await page.getByLabel('Message').fill('book a table')
  await run.click()
  await node('approval').getByText('waits for an answer').waitFor()
  const question = page.getByRole('region', { name: 'Question' })
  await question.waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'graph-question')
  await question.getByRole('button', { name: 'Approve' }).click()
  await question.waitFor({ state: 'detached' })
  await drawing.locator('.node.ran', { hasText: 'approval' }).waitFor()
  await run.waitFor()
  const link = page.getByRole('link', { name: 'Inspect the thread' })
  const thread = (await link.getAttribute('href'))!.split('/').at(-1)
  const answer = await fetch(`${stage.cluster.url}/threads/${thread}`)
  t.match(await answer.json(), { status: 'idle' }, 'the same thread went on')
  t.same(stage.errors(), [])
})

t.test('an earlier input fills the form, and the form is also JSON', async t => {
  const input = { messages: [{ role: 'user', content: `look at ${randomUUID()}` }] }
  const more = { messages: [...input.messages, { role: 'ai', content: 'at what?' }, ...input.messages] }
  for (const one of [input, more, input]) await send('/runs/wait', { assistant_id: 'agent', input: one })
  const page = await stage.open('/graphs')
  const earlier = page.getByLabel('Earlier inputs')
  const { content } = input.messages[0]!
  await earlier
    .locator('option', { hasText: content.slice(0, 40) })
    .first()
    .waitFor({ state: 'attached' })
  t.equal(await earlier.locator('option', { hasText: content.slice(0, 40) }).count(), 1, 'each once')
  await earlier.selectOption({ label: content })
  t.equal(await page.getByLabel('Message').inputValue(), content)
  await page.getByRole('button', { name: 'JSON', exact: true }).click()
  t.same(JSON.parse(await page.getByRole('textbox', { name: 'JSON' }).inputValue()), input)
  await earlier.selectOption({ index: 2 })
  t.same(JSON.parse(await page.getByRole('textbox', { name: 'JSON' }).inputValue()), more)
  await page.getByRole('textbox', { name: 'JSON' }).fill('{')
  t.ok(await page.getByRole('button', { name: 'Run', exact: true }).isDisabled())
  t.same(stage.errors(), [])
})

t.test('the drawing does not wait for the schemas', async t => {
  const page = await stage.open('/overview')
  await page.route('**/schemas', () => {})
  await page.goto(`${stage.cluster.url}/console#/graphs`)
  await parts(page).node('model').waitFor()
  t.equal(await page.getByLabel('Message').count(), 0)
  await page.context().close()
  stage.errors()
})

t.test('the graph beside a conversation', async t => {
  const page = await stage.open('/chat/new')
  await page.getByRole('button', { name: 'Graph', exact: true }).click()
  await page.getByLabel('Message').fill('what is the weather in Rome?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.locator('.pane-graph .node.ran', { hasText: 'tools' }).waitFor()
  await page.getByRole('button', { name: 'Send' }).waitFor()
  await photograph(page, 'chat-graph')
  t.same(await seriousDefects(page), [])
})

t.test('runs: found by their status, followed, and cancelled', async t => {
  const { thread_id } = (await (await send('/threads', {})).json()) as { thread_id: string }
  await send(`/threads/${thread_id}/runs`, {
    assistant_id: 'agent',
    input: { messages: [{ role: 'user', content: 'tell me a story' }] },
    stream_mode: ['messages-tuple'],
    // It takes a minute, so that a slow machine has time to cancel it.
    config: { configurable: { delay_ms: 500 } },
  })
  const runs = await stage.open('/runs')
  await runs.getByRole('button', { name: 'running' }).click()
  const link = runs.getByRole('row').filter({ hasText: 'running' }).getByRole('link').first()
  await link.click()
  const events = runs.getByRole('region', { name: 'Events' })
  await events.getByText(/^A weaver had a loom that never/).waitFor()
  await runs.getByRole('button', { name: 'Cancel' }).click()
  await runs.getByRole('region', { name: 'Run' }).getByText('interrupted').waitFor()
  await runs.getByRole('region', { name: 'Run' }).getByText('1', { exact: true }).waitFor()
  t.same(await seriousDefects(runs), [])
  await photograph(runs, 'run')
  await runs.getByRole('button', { name: 'Raw' }).click()
  await events.getByText('"run_id"').first().waitFor()
  await runs.getByRole('region', { name: 'Input' }).getByText('"tell me a story"').waitFor()

  await runs.goto(`${stage.cluster.url}/console#/runs`)
  await runs.getByRole('row').filter({ hasText: 'interrupted' }).first().waitFor()
  t.same(await seriousDefects(runs), [])
  await photograph(runs, 'runs')
  await runs.getByRole('button', { name: 'timeout' }).click()
  await runs.getByText('No run is timeout').waitFor()
})

t.test('a search by meaning says when the application has no index', async t => {
  for (const [key, text] of [
    ['one', 'sails and ropes'],
    ['two', 'a loom'],
  ] as const)
    await fetch(`${stage.cluster.url}/store/items`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ namespace: ['notes'], key, value: { text } }),
    })
  const page = await stage.open('/store')
  const items = page.getByRole('region', { name: 'Items' }).getByRole('listitem')
  await items.nth(1).waitFor()
  t.equal(await page.getByText('no index').count(), 0)
  await page.getByRole('searchbox', { name: 'Search by meaning' }).fill('LOOM')
  await page.getByText('This application has no index to search by meaning').waitFor()
  await items.filter({ hasText: 'two' }).waitFor()
  t.equal(await items.count(), 1, 'the words are looked for instead')
  t.same(await seriousDefects(page), [])
  t.same(stage.errors(), [])
})
