/** Chat: tokens, tools, questions, stop, reload in the middle of a run, forks, threads beside each other. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage()
})
t.teardown(() => stage?.close())

const STORY_END = 'Nobody has ever found the place where the light had gone.'

async function say(page: Page, text: string) {
  await page.getByLabel('Message').fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}
/** No run is under way. */
const idle = (page: Page) => page.getByRole('button', { name: 'Send' }).waitFor()
const answer = (page: Page) => page.locator('.message.ai').last()

t.test('a conversation', async t => {
  const page = await stage.open('/chat')

  await t.test('shows tool calls folded, with arguments and result', async t => {
    await page.getByRole('heading', { name: 'Nothing said yet' }).waitFor()
    await photograph(page, 'chat-empty')
    await say(page, 'what is the weather in Oslo?')
    await answer(page).getByText('Here is what I found').waitFor()
    await idle(page)
    const call = page.locator('.tool-call')
    t.equal(await call.getByText('"Oslo"').isVisible(), false)
    await call.locator('summary').first().click()
    await call.getByText('"Oslo"').waitFor()
    await call.getByText('"The weather in Oslo is').waitFor()
  })

  await t.test('asks a person, and goes on with the answer', async t => {
    await say(page, 'book a table for two')
    const question = page.getByRole('region', { name: 'Question' })
    await question.getByText('May I book a table for two?', { exact: true }).waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'chat-question')
    await question.getByRole('button', { name: 'Approve' }).click()
    await answer(page).getByText('The answer was done: book a table for two.').waitFor()
    await idle(page)
    await question.waitFor({ state: 'detached' })

    await say(page, 'send a letter')
    await question.getByRole('button', { name: 'Answer with JSON' }).click()
    await question.getByLabel('Answer as JSON').fill('{"approved": false, "note"')
    t.equal(await question.getByRole('button', { name: 'Answer', exact: true }).isDisabled(), true)
    await question.getByLabel('Answer as JSON').fill('{"approved": false, "note": "not today"}')
    await question.getByRole('button', { name: 'Answer', exact: true }).click()
    await answer(page).getByText('The answer was refused: not today.').waitFor()
    await idle(page)
  })

  await t.test('continues where it was after a reload in the middle of a run', async t => {
    await say(page, 'tell me a story')
    await answer(page).getByText('A weaver had a loom').waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Stop' }).waitFor()
    await answer(page).getByText(STORY_END).waitFor()
    await idle(page)
    const text = (await answer(page).textContent()) ?? ''
    t.match(text, /^Assistant\s*A weaver had a loom that never lost a thread\./)
    t.equal(text.split('A weaver').length, 2, 'no token came twice')
  })

  await t.test('stops', async t => {
    await page.getByRole('button', { name: 'Configuration' }).click()
    // Slower than a busy browser.
    await page.getByLabel('configurable').fill('{"delay_ms": 1000}')
    const earlier = await page.locator('.message.ai').count()
    await say(page, 'another story')
    const stopped = page.locator('.message.ai').nth(earlier)
    await stopped.getByText('A weaver').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await idle(page)
    t.equal(await stopped.getByText(STORY_END).count(), 0)
  })
})

t.test('forks', async t => {
  const page = await stage.open('/chat/new')
  await say(page, 'calculate 6 * 7')
  await answer(page).getByText('42').first().waitFor()
  await idle(page)

  await t.test('an earlier message is edited, and both forks can be seen', async t => {
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Edit the message').fill('calculate 2 + 3')
    await page.getByRole('button', { name: 'Send as a fork' }).click()
    await answer(page).getByText('2 + 3 = 5').waitFor()
    await idle(page)
    await page.getByText('2 of 2').waitFor()
    t.equal(await page.locator('.said').count(), 1)
    await photograph(page, 'chat-fork')
    await page.getByRole('button', { name: 'Earlier fork' }).click()
    await answer(page).getByText('6 * 7 = 42').waitFor()
    await page.getByText('1 of 2').waitFor()
  })

  await t.test('an answer is made again', async () => {
    await page.getByRole('button', { name: 'Regenerate' }).click()
    await idle(page)
    await page.locator('.message.ai').getByText('2 of 2').waitFor()
    await answer(page).getByText('6 * 7 = 42').waitFor()
  })

  await t.test('the configuration is sent with the next run', async t => {
    await page.getByRole('button', { name: 'Configuration' }).click()
    await page.getByLabel('configurable').fill('{"delay_ms": 0}')
    t.same(await seriousDefects(page), [])
    const request = page.waitForRequest(one => one.url().endsWith('/runs/stream'))
    await say(page, 'calculate 1 + 1')
    t.match(JSON.parse((await request).postData()!), { config: { configurable: { delay_ms: 0 } } })
    await answer(page).getByText('1 + 1 = 2').waitFor()
    await idle(page)
    t.equal(await answer(page).getByText('1 + 1 = 2').isVisible(), true, 'the fork that was continued is still shown')
    t.equal(await page.locator('.message.human').first().getByText('1 of 2').isVisible(), true)
  })

  await t.test('another thread beside it', async t => {
    const other = page.getByRole('complementary', { name: 'Threads' }).getByRole('listitem')
    await other.filter({ hasText: 'weather in Oslo' }).hover()
    await other.getByRole('button', { name: 'Open beside' }).first().click()
    await page
      .locator('.pane')
      .nth(1)
      .getByText('May I book')
      .or(page.getByText('book a table for two'))
      .first()
      .waitFor()
    t.equal(await page.locator('.pane').count(), 2)
    await photograph(page, 'chat-beside')
    await page.getByRole('button', { name: 'Close this pane' }).last().click()
    await page.locator('.pane').nth(1).waitFor({ state: 'detached' })
  })

  t.same(stage.errors(), [])
})
