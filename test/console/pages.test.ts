/** Every page of the console with something on it: no error, no defect of accessibility, nothing wider than the screen. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import type { Page } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import { openStage, type Stage, seriousDefects, shoot } from './stage.js'

t.setTimeout(240_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({}, 'test/apps/console')
})
t.teardown(() => stage?.close())

const WIDTHS = [1440, 1280, 390]

/** The text of a page whose data are there. */
async function shown(page: Page): Promise<void> {
  await page.locator('main h1, main h2, .pane').first().waitFor()
  await page.locator('.skeleton, main .spinner').first().waitFor({ state: 'detached' })
}

t.test('every page, light and dark, wide and narrow', async t => {
  const client = new Client({ apiUrl: stage.cluster.url })
  const human = (content: string) => ({ input: { messages: [{ role: 'user', content }] } })
  const { thread_id } = await client.threads.create({ metadata: { title: 'A conversation about the weather in Oslo' } })
  await client.runs.wait(thread_id, 'clerk', human('what is the weather in Oslo?'))
  await client.runs.wait(thread_id, 'clerk', human('send'))
  const assistant = await client.assistants.create({
    graphId: 'clerk',
    name: 'A kind clerk',
    context: { tone: 'kind' },
  })
  await client.assistants.update(assistant.assistant_id, { context: { tone: 'short' } })
  await client.crons.create(assistant.assistant_id, {
    schedule: '0 9 * * *',
    ...human('a daily summary of what came in'),
  })
  for (const [namespace, key] of [
    [['users', 'ada', 'memories'], 'likes'],
    [['users', 'bob'], 'colour'],
    [['outbox'], 'mail'],
  ] as const)
    await client.store.putItem([...namespace], key, { text: 'a note about them', n: 1 })
  const args = ['keys', 'create', 'walk', '--scope', 'admin', '--data', stage.cluster.data]
  const env = { ...process.env, NODE_OPTIONS: '' }
  const key = execFileSync(process.execPath, [join(root, 'dist/cli/weft.js'), ...args], {
    env,
    encoding: 'utf8',
  }).trim()

  const page = await stage.open('/overview')
  await page.evaluate(`sessionStorage.setItem('weft.control-key', '${key}')`)
  await page.reload()
  const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link')
  await links.first().waitFor()
  const listed = await Promise.all((await links.all()).map(async link => (await link.getAttribute('href'))!.slice(1)))
  t.ok(listed.length >= 12)
  const paths = [
    ...listed,
    `/chat/${thread_id}`,
    `/threads/${thread_id}`,
    `/threads?q=weather`,
    `/assistants/${assistant.assistant_id}`,
    '/nothing',
  ]
  for (const path of paths)
    await t.test(path, async t => {
      await page.goto(`${stage.cluster.url}/console#${path}`)
      await shown(page)
      const name = path.slice(1).replace(/[/?=].*/, path.split(/[/?]/).length > 2 ? '-one' : '')
      for (const width of WIDTHS)
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.setViewportSize({ width, height: width === 390 ? 844 : 900 })
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
          if (width !== 1280) await shoot(page, `page-${name}-${width}-${colorScheme}`)
          if (width !== 1440) t.same(await seriousDefects(page), [], `${width}, ${colorScheme}`)
          const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
          t.ok((wide as number) <= 0, `nothing is wider than ${width}`)
        }
      t.same(stage.errors(), [])
    })
})
