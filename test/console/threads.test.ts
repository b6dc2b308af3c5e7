/** The inspector: states, differences, subgraphs, time travel, forks. */
import t from 'tap'
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
    const link = page.getByRole('link', { name: thread_id })
    await link.waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'threads')
    await page.getByRole('button', { name: 'idle' }).click()
    await page.getByText('No thread is idle').waitFor()
    await page.getByRole('button', { name: 'interrupted' }).click()
    await link.click()
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
    await page.getByLabel('Values').fill('{"messages": [{"role": "user", "content": "a note from outside"}]}')
    await page.getByLabel('As node').fill('model')
    await page.getByRole('button', { name: 'Write the state' }).click()
    await history.getByText('update').waitFor()
    await body.getByText('a note from outside').first().waitFor()
  })

  await t.test('says why an update is refused', async () => {
    await page.getByRole('button', { name: 'Update state' }).click()
    await page.getByLabel('As node').fill('nobody')
    await page.getByRole('button', { name: 'Write the state' }).click()
    await page.getByRole('alert').getByText('nobody').waitFor()
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

t.test('a thread that does not exist', async () => {
  const page = await stage.open('/threads/0198aaaa-0000-7000-8000-000000000001')
  await page.getByRole('heading', { name: 'That did not work' }).waitFor()
  await page
    .getByText(/not found/i)
    .first()
    .waitFor()
})
