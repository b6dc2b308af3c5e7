/** The waterfall of a run in the console: its parts by nesting, with times, tokens, errors and interrupts. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({}, 'test/apps/spans')
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

/** The page of a new run of the graph. */
async function openRun(graph: string, input: object): Promise<Page> {
  const { thread_id } = await send<{ thread_id: string }>('/threads', {})
  const { run_id } = await send<{ run_id: string }>(`/threads/${thread_id}/runs`, { assistant_id: graph, input })
  return stage.open(`/runs/${thread_id}/${run_id}`)
}

const waterfallOf = (page: Page) => page.getByRole('region', { name: 'Waterfall' })
const rowsOf = (page: Page) => waterfallOf(page).getByRole('listitem')

t.test('shows nodes, models with tokens, and tools with errors', async t => {
  const page = await openRun('agent', {})
  const row = (text: string) => rowsOf(page).filter({ hasText: text })
  await row('leaf').waitFor()
  t.equal(await rowsOf(page).count(), 8)
  t.match(await row('Parrot').textContent(), /model.*parrot-1 · 7 → 2 tokens · first after/s)
  t.match(await row('broken').textContent(), /tool.*error.*no such word/s)
  t.match(await waterfallOf(page).textContent(), /7 \+ 2 tokens/)
  t.equal(await page.getByRole('region', { name: 'Nodes' }).count(), 0, 'nodes are shown once')
  t.same(await seriousDefects(page), [])
  await photograph(page, 'waterfall')
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme })
    t.same(await seriousDefects(page), [], colorScheme)
  }
})

t.test('a run without checkpoints says which node failed', async t => {
  const { run_id, thread_id } = await send<{ run_id: string; thread_id: string }>('/runs', {
    assistant_id: 'fail',
    input: {},
  })
  const page = await stage.open(`/runs/${thread_id}/${run_id}`)
  const error = page.getByRole('region', { name: 'Error' })
  await error.getByText('In the node bad.', { exact: true }).waitFor()
  await error.getByText('graphs.mjs:68', { exact: true }).waitFor()
  t.equal(await page.getByRole('region', { name: 'Nodes' }).count(), 0)
  // Its state and its events are gone.
  stage.errors()
})

t.test('parts are closed and opened with the keyboard', async t => {
  const page = await openRun('agent', {})
  await rowsOf(page).filter({ hasText: 'leaf' }).waitFor()
  const act = waterfallOf(page).getByRole('button', { name: 'act' })
  await act.focus()
  await page.keyboard.press('Enter')
  t.equal(await act.getAttribute('aria-expanded'), 'false')
  t.equal(await rowsOf(page).count(), 6)
  await page.keyboard.press('Space')
  t.equal(await act.getAttribute('aria-expanded'), 'true')
  t.equal(await rowsOf(page).count(), 8)
})

t.test('an interrupt has its own colour, which is not that of errors', async t => {
  const colourOf = (page: Page, text: string) =>
    rowsOf(page)
      .filter({ hasText: text })
      .last()
      .locator('.waterfall-bar')
      .evaluate(bar => getComputedStyle(bar).backgroundColor)
  const asked = await openRun('ask', {})
  await rowsOf(asked).filter({ hasText: 'question' }).filter({ hasText: 'interrupted' }).waitFor()
  const failed = await openRun('fail', {})
  await rowsOf(failed).filter({ hasText: 'too bad' }).last().waitFor()
  const colours = [await colourOf(asked, 'before'), await colourOf(asked, 'question'), await colourOf(failed, 'bad')]
  t.equal(new Set(colours).size, 3)
  t.same(await seriousDefects(failed), [])
})

t.test('follows a run, also into its next attempt', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-waterfall-'))
  const page = await openRun('crash', { folder })
  await rowsOf(page).filter({ hasText: 'second' }).filter({ hasText: 'running' }).waitFor()
  writeFileSync(join(folder, 'go'), '')
  await rowsOf(page).filter({ hasText: 'attempt 2' }).waitFor({ timeout: 60_000 })
  await rowsOf(page).filter({ hasText: 'attempt 1' }).filter({ hasText: 'lost' }).waitFor({ timeout: 30_000 })
  // The page asks for the state of the thread while its host is being replaced.
  const others = stage.errors().filter(text => !text.includes('503'))
  t.same(others, [])
})
