/**
 * The day after: among 100,000 runs an operator finds the one that failed, of a graph in Python, sees why, runs it again, and
 * answers a question that waits, all in the console.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { openSqlite } from '../../store/sqlite.js'
import type { Step } from '../../store/steps.js'
import { startCluster } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'
import { run, thread } from '../store/conformance-rows.js'
import { openStageWith, photograph, seriousDefects } from './stage.js'

t.setTimeout(300_000)
const skip = withoutPython() ?? false

const RUNS = 100_000
const PER_THREAD = 100
/** A run of a second, about as many before the failed one as after it. */
const EVERY_MS = 1_000

/** Runs that succeeded, around a time (ms). */
async function store(folder: string, around: number): Promise<void> {
  const store = await openSqlite({ folder })
  for (let n = 0; n < RUNS; n += PER_THREAD) {
    const row = thread({ created_at: around, updated_at: around })
    const steps: Step[] = [{ step: 'threads.insert', row }]
    for (let i = n; i < n + PER_THREAD; i++) {
      const created_at = around + (i - RUNS / 2) * EVERY_MS
      const times = { created_at, updated_at: created_at, started_at: created_at, ended_at: created_at }
      steps.push({ step: 'runs.insert', row: run(row.thread_id, { ...times, status: 'success', graph_id: 'agent' }) })
    }
    const failed = await store.apply(steps)
    if (failed !== -1) throw new Error(`step ${failed} failed`)
  }
  await store.close()
}

t.test('a failed run is found, explained and run again, and a question is answered', { skip }, async t => {
  const data = mkdtempSync(join(tmpdir(), 'weft-night-'))
  t.teardown(() => rmSync(data, { recursive: true, force: true }))
  const WEFT_PYTHON = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const start = () => startCluster({ app: 'test/apps/spans-py', data, env: { WEFT_PYTHON, WEFT_HOSTS: '1' } })
  const night = await start()
  const client = new Client({ apiUrl: night.url })
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'fail', { input: { text: 'a' } }).catch(() => {})
  const [failed] = await client.runs.list(thread_id)
  await night.stop()
  await store(data, Date.parse(failed!.created_at))

  const stage = await openStageWith(start)
  t.teardown(() => stage.close())
  const morning = new Client({ apiUrl: stage.cluster.url })
  const waiting = await morning.threads.create({ metadata: { title: 'a trip' } })
  await morning.runs.wait(waiting.thread_id, 'ask', { input: { text: 'b' } })

  const page = await stage.open('/runs')
  await page.getByText('100 runs shown.').waitFor()
  await page.getByRole('group', { name: 'Status' }).getByRole('button', { name: 'error' }).click()
  await page.getByLabel('Error contains').fill('too bad')
  const rows = page.getByRole('region', { name: 'List' }).locator('tbody tr')
  await until(async () => (await rows.count()) === 1)
  await photograph(page, 'night-found')
  await rows.getByRole('link').first().click()
  const error = page.getByRole('region', { name: 'Error' })
  await error.getByRole('heading', { name: /^ValueError: too bad/ }).waitFor()
  await error.getByText(/In the node bad/).waitFor()
  await error.getByText(/^graphs\.py:\d+$/).waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'night-failed')

  const before = page.url()
  await page.getByRole('button', { name: 'Run again' }).click()
  await until(async () => page.url() !== before)
  await page.getByRole('heading', { name: /^ValueError: too bad/ }).waitFor()
  t.equal((await morning.runs.list(thread_id)).length, 2)

  await page.getByRole('link', { name: 'Inbox 1 waiting' }).click()
  const question = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'a trip' }) })
  await question.getByText('Which?').waitFor()
  await question.getByLabel('Answer').fill('that one')
  await question.getByRole('button', { name: 'Answer', exact: true }).click()
  await until(async () => (await morning.threads.get(waiting.thread_id)).status === 'idle')
  t.match((await morning.threads.getState(waiting.thread_id)).values, { text: 'that one' })
  // The events of last night are gone: the page shows what is stored.
  t.same(
    stage.errors().filter(text => !text.includes('409')),
    [],
  )
})
