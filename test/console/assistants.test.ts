/** Assistants: made and changed by forms, their versions beside each other. */
import t from 'tap'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({}, 'test/apps/console')
})
t.teardown(() => stage?.close())

/** A host computes the schemas. */
const SCHEMAS_MS = 30_000

t.test('an assistant is made by a form, gets versions that are compared, and goes back to an earlier one', async t => {
  const page = await stage.open('/assistants')
  await page.getByRole('link', { name: 'clerk' }).waitFor()
  await page.getByRole('button', { name: 'New assistant' }).click()
  const form = page.getByRole('form', { name: 'Assistant' })
  await form.getByLabel('Graph of the assistant').selectOption('clerk')
  await form.getByLabel('tone').selectOption('kind', { timeout: SCHEMAS_MS })
  await form.getByLabel('Name').fill('Kind clerk')
  await form.getByLabel('Description').fill('Says please.')
  await form.getByLabel('Metadata').fill('{"team": "front"}')
  t.same(await seriousDefects(page), [])
  await photograph(page, 'assistant-form')
  await form.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('heading', { name: 'Kind clerk' }).waitFor()
  const id = page.url().split('/').at(-1)
  const now = async () => (await (await fetch(`${stage.cluster.url}/assistants/${id}`)).json()) as object
  t.match(await now(), { version: 1, context: { tone: 'kind' }, metadata: { team: 'front' }, graph_id: 'clerk' })

  await page.getByRole('button', { name: 'Edit' }).click()
  await form.getByLabel('copies').fill('3', { timeout: SCHEMAS_MS })
  await form.getByLabel('tone').selectOption('short')
  await form.getByRole('button', { name: 'Save as a new version' }).click()
  await page.getByRole('heading', { name: 'Version 2, which runs use' }).waitFor()
  t.match(await now(), {
    version: 2,
    context: { tone: 'short', copies: 3 },
    name: 'Kind clerk',
    description: 'Says please.',
  })

  const compared = page.getByRole('region', { name: 'Comparison' })
  await compared.locator('.change', { hasText: 'context.tone' }).getByText('"kind"').waitFor()
  await compared.locator('.change', { hasText: 'context.copies' }).getByText('added').waitFor()
  t.equal(await compared.locator('.change').count(), 2)
  t.same(await seriousDefects(page), [])
  await photograph(page, 'assistant')
  await compared.getByLabel('From').selectOption('2')
  await compared.getByText('Both versions are the same.').waitFor()

  await page.getByRole('button', { name: 'Use version 1' }).click()
  await page.getByRole('heading', { name: 'Version 1, which runs use' }).waitFor()
  t.match(await now(), { version: 1, context: { tone: 'kind' } })

  await page.goto(`${stage.cluster.url}/console#/assistants`)
  await page.getByRole('link', { name: 'Kind clerk' }).waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'assistants')
  await page.getByRole('searchbox', { name: 'Search assistants' }).fill('nobody')
  await page.getByRole('heading', { name: 'No assistant matches' }).waitFor()
  await page.getByRole('searchbox', { name: 'Search assistants' }).fill('kind')
  await page.getByRole('link', { name: 'Kind clerk' }).click()
  page.once('dialog', dialog => {
    t.match(dialog.message(), 'Delete the assistant Kind clerk')
    void dialog.accept()
  })
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('link', { name: 'clerk' }).waitFor()
  t.equal(await page.getByRole('link', { name: 'Kind clerk' }).count(), 0)
  t.match(await now(), { detail: String })
  t.same(stage.errors(), [])
})
