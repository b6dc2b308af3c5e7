/** Log lines in the console: all of them, followed and filtered, and those of a run. */
import t from 'tap'
import { sender } from '../helpers/http.js'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(180_000)

let stage: Stage
let send: ReturnType<typeof sender>

t.before(async () => {
  stage = await openStage({}, 'test/apps/basic')
  send = sender(stage.cluster.url)
})
t.teardown(() => stage?.close())

async function run(assistant_id: string, input: object) {
  const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
  const { run_id } = (await send('POST', `/threads/${thread_id}/runs`, { assistant_id, input })).body as {
    run_id: string
  }
  await send('GET', `/threads/${thread_id}/runs/${run_id}/join`)
  return { thread_id, run_id }
}

t.test('lines are followed and filtered, and lead to their run', async t => {
  const first = await run('chunks', { count: 1, say: 'the first line' })
  const page = await stage.open('/logs')
  const log = page.getByRole('log', { name: 'Lines' })
  await log.getByText('the first line').waitFor()
  const second = await run('chunks', { count: 1, say: '\u001b[31mthe second\u001b[0m line' })
  await log.getByText('the second line', { exact: true }).waitFor()
  await run('fail', { message: 'no luck' })
  await log.getByText(/run failed.*TooBadError: no luck/s).waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'logs')

  const shown = async () =>
    (await log.locator('.log-text').allTextContents()).map(text => text.split(' ').slice(0, 3).join(' '))
  await page.getByLabel('Text').fill('SECOND')
  await until(async () => (await shown()).join() === 'the second line')
  t.match(page.url(), /text=SECOND/)
  await page.getByLabel('Text').fill('')
  await page.getByRole('button', { name: 'error', exact: true }).click()
  await until(async () => (await shown()).length === 1 && (await shown())[0]!.startsWith('run failed'))
  await page.getByRole('button', { name: 'all', exact: true }).click()
  await page.getByLabel('Run').fill('nonsense')
  await page.getByText('Expected a UUID').waitFor()
  await page.getByLabel('Run').fill(first.run_id)
  await until(async () => (await shown()).join() === 'the first line')
  t.equal(await page.getByLabel('Worker').locator('option').count(), 2)
  await page.reload()
  await log.getByText('the first line').waitFor()
  t.equal(await log.locator('.log-line').count(), 1, 'the address has the conditions')

  await page.getByLabel('Run').fill('')
  await log.getByText('the second line').waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await run('chunks', { count: 1, say: 'while it pauses' })
  t.equal(await log.getByText('while it pauses').count(), 0)
  await page.getByRole('button', { name: 'Follow' }).click()
  await log.getByText('while it pauses').waitFor()

  await log.locator('.log-line', { hasText: 'the second line' }).getByRole('link').click()
  const card = page.getByRole('region', { name: 'Log lines' })
  await card.getByText('the second line').waitFor()
  t.equal(await card.locator('.log-line').count(), 1)
  t.ok(page.url().endsWith(`#/runs/${second.thread_id}/${second.run_id}`))
  t.same(await seriousDefects(page), [])
  await card.scrollIntoViewIfNeeded()
  await photograph(page, 'run-log-lines')
  await card.getByRole('link', { name: 'Open in Logs' }).click()
  await until(async () => (await shown()).join() === 'the second line')
  t.same(stage.errors(), [])
})

t.test('no line is a sentence', async t => {
  const page = await stage.open('/logs?text=nobody%20wrote%20this')
  await page.getByRole('heading', { name: 'No line' }).waitFor()
  t.same(await seriousDefects(page), [])
  const { thread_id, run_id } = await run('chunks', { count: 1 })
  const runPage = await stage.open(`/runs/${thread_id}/${run_id}`)
  await runPage.getByText('The run has written nothing, or its worker does not have the lines any more.').waitFor()
  t.same(stage.errors(), [])
})

t.test('on a phone the page does not scroll sideways', async t => {
  await run('chunks', { count: 1, say: `a long ${'line '.repeat(60)} ${'x'.repeat(300)}` })
  const page = await stage.open('/logs', { viewport: { width: 390, height: 844 } })
  await page.getByText(/^a long line/).waitFor()
  t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
  t.ok(
    await page.evaluate(`[...document.querySelectorAll('.log')].every(each => each.scrollWidth <= each.clientWidth)`),
  )
})
