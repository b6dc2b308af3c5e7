/** Runs as an operator lives in them: found, paged, followed, cancelled, run again; and one of them with its error. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import { sender } from '../helpers/http.js'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(300_000)

interface Run {
  run_id: string
  thread_id: string
  assistant_id: string
  status: string
  created_at: string
  metadata: object
  kwargs: { input: unknown }
}

const DELAYED = 230
/** Delayed runs do not execute: `slow` has pending ones only. */
const DELAY_S = 3_600
const KEPT_MS = 500
/** The line of test/apps/basic/graphs.mjs that has this text. */
const lineOf = (text: string) =>
  1 +
  readFileSync(join(root, 'test/apps/basic/graphs.mjs'), 'utf8')
    .split('\n')
    .findIndex(line => line.includes(text))

let stage: Stage
let send: ReturnType<typeof sender>
const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
  const answer = await send(method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body as T
}
const search = (body: object) => ask<Run[]>('POST', '/runs/search', { limit: 1_000, ...body })
const newThread = async () => (await ask<{ thread_id: string }>('POST', '/threads', {})).thread_id
const ended = async (assistant_id: string, input: object, more: object = {}): Promise<Run> => {
  const run = await ask<Run>('POST', `/threads/${await newThread()}/runs`, { assistant_id, input, ...more })
  await ask('GET', `/runs/${run.run_id}/join`)
  return run
}

t.before(async () => {
  // Without spans a run shows its nodes; test/console/waterfall.test.ts has the others.
  stage = await openStage({ WEFT_KEEP_ENDED_MS: `${KEPT_MS}`, WEFT_RUN_SPANS_HOURS: '0' }, 'test/apps/basic')
  send = sender(stage.cluster.url)
  const threads = await Promise.all(Array.from({ length: 10 }, newThread))
  for (let i = 0; i < DELAYED; i += threads.length)
    await Promise.all(
      threads.map(thread_id =>
        ask('POST', `/threads/${thread_id}/runs`, { assistant_id: 'slow', input: {}, after_seconds: DELAY_S }),
      ),
    )
  for (const message of ["'order'", 'Connection refused by the model']) await ended('fail', { message })
  await ended('echo', { hello: 1 })
})
t.teardown(() => stage?.close())

const list = (page: Page) => page.getByRole('region', { name: 'List' })
const rows = (page: Page) => list(page).locator('tbody tr')
const shownIds = (page: Page) =>
  list(page)
    .locator('tbody td:nth-child(2) .id')
    .evaluateAll(found => found.map(one => (one as HTMLElement).title))
const untilRows = (page: Page, count: number) => until(async () => (await rows(page).count()) === count)

t.test('pages of some hundred runs, newest first', async t => {
  const page = await stage.open('/runs?graph=slow')
  await page.getByText('100 runs shown.').waitFor()
  await page.getByRole('button', { name: 'Older runs' }).click()
  await page.getByText('200 runs shown.').waitFor()
  await page.getByRole('button', { name: 'Older runs' }).click()
  await page.getByText(`${DELAYED} runs shown, the oldest last.`).waitFor()
  // It is read again meanwhile.
  for (let i = 0; i < 2; i++) await page.waitForResponse(answer => answer.url().endsWith('/runs/search'))
  const wanted = (await search({ graph_id: 'slow' })).map(({ run_id }) => run_id)
  t.same(await shownIds(page), wanted)
  t.equal(await page.getByRole('button', { name: 'Older runs' }).count(), 0)
  const [first] = wanted
  t.equal(await list(page).getByTitle(first!).textContent(), `…${first!.slice(-8)}`, 'an id shows its end')
  await page.getByText(new RegExp(`^${DELAYED} runs at .*, newest first`)).waitFor()
})

t.test('the conditions are in the address', async t => {
  const page = await stage.open('/runs')
  const hash = () => page.evaluate('location.hash') as Promise<string>
  const status = page.getByRole('group', { name: 'Status' })
  await status.getByRole('button', { name: 'error' }).click()
  await untilRows(page, 2)
  t.equal(await hash(), '#/runs?status=error')
  await page.getByLabel('Error contains').fill('REFUSED')
  await untilRows(page, 1)
  await page.getByLabel('Graph').selectOption('fail')
  await page.getByLabel('Created').selectOption('day')
  await until(async () => (await hash()) === '#/runs?status=error&graph=fail&text=REFUSED&since=day')
  await list(page).getByText('TooBadError: Connection refused by the model').waitFor()

  const same = await page.context().newPage()
  await same.goto(page.url())
  await list(same).getByText('TooBadError: Connection refused by the model').waitFor()
  t.equal(await same.getByLabel('Error contains').inputValue(), 'REFUSED')
  t.equal(await same.getByLabel('Graph').inputValue(), 'fail')
  t.equal(await same.getByLabel('Created').inputValue(), 'day')
  t.equal(await rows(same).count(), 1)

  await page.getByRole('button', { name: 'Clear' }).click()
  await until(async () => (await hash()) === '#/runs')
  await page.goBack()
  await until(async () => (await hash()).includes('text=REFUSED'))
  await untilRows(page, 1)
  await page.getByLabel('Thread').fill('abc')
  await page.getByText('Expected a UUID').waitFor()
  const [run] = await search({ graph_id: 'echo' })
  await page.goto(`${stage.cluster.url}/console#/runs/${run!.thread_id}`)
  await until(async () => (await hash()) === `#/runs?thread=${run!.thread_id}`)
  await untilRows(page, 1)
  await page.goto(`${stage.cluster.url}/console#/runs?status=error,success&live=off`)
  await untilRows(page, 3)
  t.notOk(await page.getByLabel('Live').isChecked())
  await page.goto(`${stage.cluster.url}/console#/threads`)
  await page.getByRole('heading', { name: 'Threads' }).waitFor()
  t.equal(await hash(), '#/threads')
  t.same(stage.errors(), [])
})

t.test('runs by what became of them, over time', async t => {
  const page = await stage.open('/runs')
  const line = (name: string) => page.getByRole('figure').filter({ hasText: name }).locator('strong')
  await line('Open').getByText(`${DELAYED}`, { exact: true }).waitFor()
  await line('Failed').getByText('2', { exact: true }).waitFor()
  await line('Succeeded').getByText('1', { exact: true }).waitFor()
  let counts = 0
  page.on('request', request => void (request.url().endsWith('/runs/count') && counts++))
  await page.getByLabel('Graph').selectOption('fail')
  await line('Succeeded').getByText('0', { exact: true }).waitFor()
  await line('Failed').getByText('2', { exact: true }).waitFor()
  t.ok(counts > 0 && counts <= 4 * 12 + 2, `${counts} counts`)
})

t.test('new runs appear, and wait while rows are chosen', async t => {
  const page = await stage.open('/runs?graph=counter')
  await page.getByText('No run meets these conditions').waitFor()
  const first = await ended('counter', {})
  await list(page).getByTitle(first.run_id).waitFor()
  await rows(page).first().getByRole('checkbox').check()
  const second = await ended('counter', {})
  const show = page.getByRole('button', { name: 'Show 1 new run' })
  await show.waitFor()
  t.same(await shownIds(page), [first.run_id])
  await show.click()
  t.same(await shownIds(page), [second.run_id, first.run_id])
  await page.getByRole('button', { name: 'Choose none' }).click()

  // Far down the list the rows stay where they are, too.
  await page.goto(`${stage.cluster.url}/console#/runs`)
  const row = rows(page).nth(60)
  await row.scrollIntoViewIfNeeded()
  const id = (await shownIds(page))[60]!
  const top = async () => Math.round((await list(page).getByTitle(id).boundingBox())!.y)
  const before = await top()
  const third = await ended('counter', {})
  await list(page).getByTitle(third.run_id).waitFor({ state: 'attached' })
  t.ok(Math.abs((await top()) - before) <= 1, 'no row has moved')
})

t.test('chosen runs are cancelled after a question with their number', async t => {
  const [{ thread_id }] = (await search({ graph_id: 'slow', limit: 1 })) as [Run]
  const page = await stage.open(`/runs?status=pending&graph=slow&thread=${thread_id}`)
  await untilRows(page, DELAYED / 10)
  for (const at of [0, 2, 3]) await rows(page).nth(at).getByRole('checkbox').check()
  const wanted = await shownIds(page)
  await page.getByRole('region', { name: 'Chosen runs' }).getByText('3 runs chosen').waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'runs-chosen')
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel 3 runs?' })
  t.same(await seriousDefects(page), [])
  await dialog.getByRole('button', { name: 'Cancel 3 runs' }).click()
  await dialog.getByText('3 cancelled').waitFor()
  t.equal(await dialog.getByRole('listitem').count(), 3)
  await dialog.getByRole('button', { name: 'Close' }).click()
  const gone = [0, 2, 3].map(at => wanted[at]!)
  await until(async () => (await search({ graph_id: 'slow', status: 'interrupted' })).length === 3)
  const found = (await search({ graph_id: 'slow', status: 'interrupted' })).map(({ run_id }) => run_id)
  t.same(found, gone)
  await until(async () => (await shownIds(page))[0] === wanted[1])
  t.notOk(
    (await shownIds(page)).some(id => gone.includes(id)),
    'they left the list of pending runs',
  )
})

t.test('chosen runs are run again with the same request', async t => {
  const before = await search({ graph_id: 'fail' })
  const page = await stage.open('/runs?graph=fail')
  await untilRows(page, before.length)
  await page.getByRole('checkbox', { name: `Choose all ${before.length} shown` }).check()
  await page.getByRole('button', { name: 'Run again' }).click()
  const dialog = page.getByRole('dialog', { name: `Run ${before.length} runs again?` })
  await dialog.getByRole('button', { name: `Run ${before.length} runs` }).click()
  await dialog.getByText(`${before.length} run again`).waitFor()
  t.equal(await dialog.getByRole('link').count(), before.length)
  const known = new Set(before.map(({ run_id }) => run_id))
  const made = (await search({ graph_id: 'fail' })).filter(({ run_id }) => !known.has(run_id))
  const shown = (runs: Run[]) =>
    runs
      .map(({ thread_id, assistant_id, kwargs }) => ({ thread_id, assistant_id, input: kwargs.input }))
      .sort((a, b) => (a.thread_id < b.thread_id ? -1 : 1))
  t.same(shown(made), shown(before))
  await dialog.getByRole('button', { name: 'Close' }).click()
  await untilRows(page, 2 * before.length)
  t.same(stage.errors(), [])
})

t.test('what the server refuses is said for each run', async () => {
  const run = await ended('echo', { gone: 1 }, { metadata: { kind: 'refused' } })
  const page = await stage.open(`/runs?thread=${run.thread_id}`)
  await rows(page).first().getByRole('checkbox').check()
  await ask('DELETE', `/threads/${run.thread_id}`)
  await page.getByRole('button', { name: 'Run again' }).click()
  const dialog = page.getByRole('dialog', { name: 'Run 1 run again?' })
  await dialog.getByRole('button', { name: 'Run 1 run' }).click()
  await dialog.getByText('0 run again, 1 not').waitFor()
  await dialog
    .getByRole('listitem')
    .getByText(/not found/i)
    .waitFor()
  stage.errors()
})

t.test('a failed run is found, says why, and is run again', async t => {
  const page = await stage.open("/runs?text='order'")
  await rows(page).first().getByRole('link').first().click()
  await page.getByRole('region', { name: 'Error' }).getByRole('heading', { name: "TooBadError: 'order'" }).waitFor()
  const error = page.getByRole('region', { name: 'Error' })
  await error.getByText('In the node bad, step 2.').waitFor()
  await error.getByText(`graphs.mjs:${lineOf('throw new TooBadError')}`, { exact: true }).waitFor()
  await error.getByRole('button', { name: 'Copy the file and line' }).waitFor()
  const facts = page.getByRole('region', { name: 'Run', exact: true })
  await facts.getByText('error', { exact: true }).waitFor()
  await facts.getByText(/^default-/).waitFor()
  await page.getByRole('region', { name: 'Input' }).getByText(`"'order'"`).waitFor()
  await page.getByRole('region', { name: 'Output' }).getByText('before').waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'run-failed')

  const before = page.url()
  await page.getByRole('button', { name: 'Run again' }).click()
  await until(async () => page.url() !== before)
  await page.getByRole('heading', { name: "TooBadError: 'order'" }).waitFor()
  const [newest] = await search({ graph_id: 'fail' })
  t.ok(page.url().endsWith(`#/runs/${newest!.thread_id}/${newest!.run_id}`))
  await page.getByRole('link', { name: 'Open the thread at its end' }).click()
  await page.getByRole('navigation', { name: 'History' }).locator('[aria-current]').getByText('→ bad').waitFor()
  stage.errors()
})

t.test('a run whose events have expired shows its nodes', async t => {
  const run = await ended('fail', { message: 'late' })
  const stream = () => fetch(`${stage.cluster.url}/runs/${run.run_id}/stream`, { headers: { 'last-event-id': '-1' } })
  await until(async () => (await stream()).status === 409)
  stage.errors()
  const page = await stage.open(`/runs/${run.thread_id}/${run.run_id}`)
  await page
    .getByRole('region', { name: 'Events' })
    .getByText(/^The events of this run have expired/)
    .waitFor()
  const nodes = page.getByRole('region', { name: 'Nodes' })
  await nodes.getByText('From the checkpoints of the run').waitFor()
  t.same(await nodes.locator('li strong').allTextContents(), ['good', 'bad'])
  await nodes.getByText('failed').waitFor()
  await nodes.getByText('TooBadError: late').waitFor()
  t.same(await seriousDefects(page), [])
  stage.errors()
})

t.test('nodes of an interrupted run, and of the run that answers it', async t => {
  const run = await ended('ask', { question: 'how?' })
  const page = await stage.open(`/runs/${run.thread_id}/${run.run_id}`)
  const nodes = page.getByRole('region', { name: 'Nodes' })
  await nodes.getByText('asks').waitFor()
  const answer = { assistant_id: 'ask', command: { resume: 'so' } }
  const { run_id } = await ask<Run>('POST', `/threads/${run.thread_id}/runs`, answer)
  await ask('GET', `/runs/${run_id}/join`)
  await page.goto(`${stage.cluster.url}/console#/runs/${run.thread_id}/${run_id}`)
  await page.getByRole('region', { name: 'Input' }).getByText('"so"').waitFor()
  await nodes.getByText('done').waitFor()
  t.equal(await nodes.getByRole('listitem').count(), 1)
})

t.test('a run without a thread', async () => {
  const { run_id, thread_id } = await ask<Run>('POST', '/runs', { assistant_id: 'slow', input: {}, after_seconds: 600 })
  const page = await stage.open(`/runs/${thread_id}/${run_id}`)
  await page.getByRole('region', { name: 'Run', exact: true }).getByText('none').waitFor()
  await page.getByText('The run waits for a graph worker.').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('region', { name: 'Run', exact: true }).getByText('interrupted').waitFor()
  await page.goto(`${stage.cluster.url}/console#/runs/${thread_id}/0198aaaa-0000-7000-8000-000000000001`)
  await page.getByText('There is no such run').waitFor()
  stage.errors()
})

t.test('nothing there, not yet there, and no connection are different sentences', async t => {
  const page = await stage.open('/runs?status=timeout')
  await page.getByText('No run is timeout').waitFor()
  let release = () => {}
  const held = new Promise<void>(done => (release = done))
  await page.route('**/runs/search', async route => {
    await held
    await route.abort()
  })
  await page.goto(`${stage.cluster.url}/console#/runs?status=running`)
  await page.getByRole('status').filter({ hasText: 'Loading' }).waitFor({ state: 'attached' })
  release()
  await page.getByRole('heading', { name: 'The server cannot be reached' }).waitFor()
  t.equal(await page.getByText('No run is running').count(), 0)
  stage.errors()
})

t.test('on a phone nothing is cut', async t => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await stage.open('/runs?status=error', { viewport: { width: 390, height: 844 }, colorScheme })
    await rows(page).first().waitFor()
    const overflow = () => page.evaluate("document.getElementById('main').scrollWidth - innerWidth")
    t.equal(await overflow(), 0)
    t.same(await seriousDefects(page), [])
    await page.getByRole('button', { name: 'More filters' }).click()
    await page.getByLabel('Graph').selectOption('fail')
    await list(page)
      .getByText(/^TooBadError/)
      .first()
      .waitFor()
    t.equal(await overflow(), 0)
    await rows(page).first().getByRole('link').first().click()
    await page.getByRole('region', { name: 'Error' }).waitFor()
    await page.getByRole('region', { name: 'Nodes' }).getByText('bad').first().waitFor()
    t.equal(await overflow(), 0)
    t.same(await seriousDefects(page), [])
  }
  stage.errors()
})
