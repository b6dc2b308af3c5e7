/** The inspector: states, differences, subgraphs, time travel, forks. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage()
})
t.teardown(() => stage?.close())

const send = async <T>(path: string, body: unknown): Promise<T> => {
  const answer = await fetch(stage.cluster.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return (await answer.json()) as T
}
const say = (thread: string, content: string) =>
  send(`/threads/${thread}/runs/wait`, {
    assistant_id: 'agent',
    input: { messages: [{ role: 'user', content }] },
    config: { configurable: { delay_ms: 0 } },
  })

t.test('the inspector of a thread', async t => {
  const { thread_id } = await send<{ thread_id: string }>('/threads', {})
  await say(thread_id, 'calculate 6 * 7')
  await say(thread_id, 'book a table')
  const page = await stage.open('/threads')
  const history = page.getByRole('navigation', { name: 'History' })
  const view = (name: string) => page.getByRole('group', { name: 'View' }).getByRole('button', { name }).click()
  const body = page.locator('.state-body')

  await t.test('is reached from the list, which can be filtered', async t => {
    const link = page.getByRole('link', { name: 'calculate 6 * 7' })
    await link.waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'threads')
    await page.getByRole('button', { name: 'idle' }).click()
    await page.getByText('No thread matches').waitFor()
    t.match(page.url(), /#\/threads\?status=idle$/)
    await page.reload()
    await page.getByText('No thread matches').waitFor()
    await page.getByRole('button', { name: 'interrupted' }).click()
    await link.click()
    await page.getByRole('heading', { name: 'calculate 6 * 7' }).waitFor()
  })

  await t.test('shows the state and the history', async t => {
    await body.getByText('messages').waitFor()
    // input, model, tools, model of the first run; input and model of the second one.
    t.equal(await history.getByRole('listitem').count(), 8)
    t.same(await seriousDefects(page), [])
    await photograph(page, 'thread-state')
  })

  await t.test('shows the question of a task', async () => {
    await view('Tasks')
    await body.getByText('May I book a table?').waitFor()
    await photograph(page, 'thread-tasks')
  })

  await t.test('shows what a step changed, and the difference to any other checkpoint', async t => {
    await view('Changes')
    await body.locator('.change', { hasText: 'messages[5]' }).waitFor()
    t.equal(await body.locator('.change').count(), 1)
    await body.getByLabel('Compared with').selectOption({ label: await lastOption() })
    await body.locator('.change', { hasText: 'messages[0]' }).or(body.locator('.change').nth(1)).first().waitFor()
    t.ok((await body.locator('.change').count()) >= 1)
    t.same(await seriousDefects(page), [])
    await photograph(page, 'thread-changes')
    async function lastOption(): Promise<string> {
      return (await body.locator('option').last().textContent()) ?? ''
    }
  })

  await t.test('updates the state', async () => {
    await view('State')
    await page.getByRole('button', { name: 'Update state' }).click()
    t.match(await page.getByLabel('Values').inputValue(), 'calculate 6 * 7', 'it begins with what is there')
    t.ok(await page.getByRole('button', { name: 'Write the state' }).isDisabled(), 'nothing is changed yet')
    await page.getByLabel('Values').fill('{"messages": [{"role": "user", "content": "a note from outside"}]}')
    await page.getByLabel('As node').selectOption('model')
    await page.getByRole('button', { name: 'Write the state' }).click()
    await history.getByText('update').waitFor()
    await body.getByText('a note from outside').first().waitFor()
  })

  await t.test('says why an update is refused', async () => {
    await page.getByRole('button', { name: 'Update state' }).click()
    await page.getByLabel('Values').fill('7')
    await page.getByRole('button', { name: 'Write the state' }).click()
    await page.getByRole('alert').getByText('values').waitFor()
    await page.getByRole('button', { name: 'Update state' }).click()
  })

  await t.test('goes back in time and runs from there, which is a fork', async t => {
    const before = await history.getByRole('listitem').count()
    // The checkpoint before the tool ran: the tool runs again.
    await history.getByRole('button', { name: '→ tools' }).last().click()
    await page.getByRole('button', { name: 'Run from here' }).click()
    await page.getByLabel('Input').fill('')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await history.getByText('fork').first().waitFor()
    await page.locator('.page-head').getByText('idle').waitFor()
    await history.getByRole('listitem').nth(before).waitFor()
    await view('Changes')
    await body.locator('.change', { hasText: 'messages[3]' }).waitFor()
    t.same(
      stage.errors().filter(error => !error.includes('status of 4')),
      [],
    )
  })
})

t.test('the state of a subgraph is part of its task', async () => {
  const { thread_id } = await send<{ thread_id: string }>('/threads', {})
  await send(`/threads/${thread_id}/runs/wait`, {
    assistant_id: 'agent',
    input: { messages: [{ role: 'user', content: 'research tides' }] },
    config: { configurable: { delay_ms: 0 } },
  })
  const page = await stage.open(`/threads/${thread_id}`)
  const history = page.getByRole('navigation', { name: 'History' })
  await history.getByRole('button', { name: '→ research' }).click()
  await page.getByRole('group', { name: 'View' }).getByRole('button', { name: 'Tasks' }).click()
  await page.locator('.subgraph').getByText('outline').first().waitFor()
})

t.test('threads are found by words and by metadata, page by page', async t => {
  const create = (metadata: object) => send<{ thread_id: string }>('/threads', { metadata })
  const tall = await create({ title: 'Tall ships', user: 'ada', n: 7 })
  await create({ title: 'Small boats', user: 'ada' })
  const unnamed = await create({ user: 'bob' })
  const page = await stage.open('/threads')
  const search = page.getByRole('searchbox', { name: 'Search threads' })
  const found = async (text: string, ...titles: string[]) => {
    await search.fill(text)
    const shown = async () => (await page.locator('tbody tr a').allTextContents()).sort().join()
    await until(async () => (await shown()) === titles.toSorted().join())
  }
  await found('SHIPS tall', 'Tall ships')
  await page.getByText(/^Looked at every thread: \d+\.$/).waitFor()
  await found('user:ada', 'Tall ships', 'Small boats')
  await found('{"n": 7}', 'Tall ships')
  await found(unnamed.thread_id, `…${unnamed.thread_id.slice(-12)}`)
  t.match(page.url(), new RegExp(`#/threads\\?q=${unnamed.thread_id}$`))
  await search.fill('no such words')
  await page.getByRole('heading', { name: 'No thread matches' }).waitFor()
  t.equal(tall.thread_id.length, 36)

  for (let i = 0; i < 24; i++) await create({ title: `page ${i}` })
  await search.fill('')
  await page.getByRole('button', { name: 'Older' }).click()
  await page.getByRole('link', { name: 'Tall ships' }).waitFor()
  t.match(page.url(), /#\/threads\?from=25$/)
  await page.reload()
  await page.getByRole('link', { name: 'Tall ships' }).waitFor()
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test('a thread is copied, exported and deleted', async t => {
  const { thread_id } = await send<{ thread_id: string }>('/threads', { metadata: { title: 'An original' } })
  await say(thread_id, 'calculate 1 + 2')
  const page = await stage.open(`/threads/${thread_id}`)
  await page.getByRole('heading', { name: 'An original' }).waitFor()
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ])
  t.equal(file.suggestedFilename(), `thread-${thread_id}.json`)
  const { thread, history } = JSON.parse(readFileSync(await file.path(), 'utf8'))
  t.equal(thread.thread_id, thread_id)
  t.ok(history.length > 2 && history[0].values.messages.length > 2)

  await page.getByRole('button', { name: 'Copy', exact: true }).click()
  await page.waitForURL(url => !url.hash.endsWith(thread_id))
  await page.getByText('1 + 2 = 3').first().waitFor()
  page.once('dialog', dialog => {
    t.match(dialog.message(), 'Delete the thread “An original”')
    void dialog.accept()
  })
  const copy = page.url().split('/').at(-1)
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.waitForURL(url => url.hash === '#/threads')
  const status = async (id = '') => (await fetch(`${stage.cluster.url}/threads/${id}`)).status
  t.equal(await status(copy), 404)
  t.equal(await status(thread_id), 200)

  page.once('dialog', dialog => void dialog.accept())
  const row = page.getByRole('row').filter({ hasText: 'An original' })
  await row.getByRole('button', { name: 'Delete' }).click()
  await row.waitFor({ state: 'detached' })
  t.equal(await status(thread_id), 404)
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test('a state of a megabyte opens closed, with a search, and Chat says that it loads', async t => {
  const { thread_id } = await send<{ thread_id: string }>('/threads', { metadata: { graph_id: 'agent' } })
  const messages = Array.from({ length: 300 }, (_, i) => ({
    type: i % 2 === 0 ? 'human' : 'ai',
    id: `m${i}`,
    content: `${'word '.repeat(700)} number ${i}`,
  }))
  await send(`/threads/${thread_id}/state`, { values: { messages }, as_node: 'model' })
  const page = await stage.open(`/threads/${thread_id}`)
  const body = page.locator('.state-body')
  await body.getByText('[300]').waitFor()
  t.ok((await body.locator('.json *').count()) < 20, 'what is folded is not made')
  await page.getByRole('searchbox', { name: 'Search in the state' }).fill('number 123')
  await body.getByText('messages[123].content').waitFor()
  await body.getByText('1 found').waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'thread-large')
  await page.getByRole('searchbox', { name: 'Search in the state' }).fill('')
  await body.getByText('[300]').click()
  await body.getByRole('button', { name: 'Show 100 of 200 more' }).waitFor()

  let go = () => {}
  const held = new Promise<void>(resolve => (go = resolve))
  await page.route('**/history', async route => {
    await held
    await route.continue()
  })
  await page.getByRole('link', { name: 'Open in Chat' }).click()
  await page.locator('.messages').getByText('Loading').waitFor({ state: 'attached' })
  t.equal(await page.getByText('Nothing said yet').count(), 0)
  go()
  await page.locator('.message').nth(299).waitFor()
  t.equal(await page.locator('.messages').getByText('Loading').count(), 0)
  t.same(stage.errors(), [])
  await page.context().close()
})

t.test('a list under a lost connection says so, and not that it is empty', async t => {
  const page = await stage.open('/overview')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.route('**/search', route => route.abort())
  await page.getByRole('link', { name: 'Threads', exact: true }).click()
  await page.getByRole('alert').getByText('The server cannot be reached').waitFor()
  t.equal(await page.getByText('No thread yet').count(), 0)
  stage.errors()
})

t.test('a thread that does not exist', async () => {
  const page = await stage.open('/threads/0198aaaa-0000-7000-8000-000000000001')
  await page.getByRole('heading', { name: 'That did not work' }).waitFor()
  await page
    .getByText(/not found/i)
    .first()
    .waitFor()
})
