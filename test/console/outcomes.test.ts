/** Outcomes: deliveries of webhooks, firings of crons, and the run that holds a host. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { until } from '../helpers/until.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
/** The statuses of the next answers of the receiver; 204 when none is left. */
const answers: number[] = []
const receiver = createServer((_, response) => void response.writeHead(answers.shift() ?? 204).end())
const host = () => `127.0.0.1:${(receiver.address() as AddressInfo).port}`

t.before(async () => {
  await new Promise<void>(done => receiver.listen(0, '127.0.0.1', done))
  stage = await openStage({ WEFT_ALLOW_HOSTS: host(), WEFT_CRON_SECONDS: '1' }, 'test/apps/faults')
})
t.teardown(async () => {
  await stage?.close()
  receiver.close()
})

async function post<T>(path: string, body: unknown): Promise<T> {
  const answer = await fetch(stage.cluster.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return (await answer.json()) as T
}

t.test('the webhook of a run: its attempts, and one more on request', async t => {
  const { thread_id } = await post<{ thread_id: string }>('/threads', {})
  answers.push(500)
  const webhook = `http://${host()}/hook`
  const body = { assistant_id: 'steps', input: { steps: 1 }, webhook }
  const { run_id } = await post<{ run_id: string }>(`/threads/${thread_id}/runs`, body)
  const page = await stage.open(`/runs/${thread_id}/${run_id}`)
  const card = page.getByRole('region', { name: 'Webhook' })
  await card.getByText('scheduled').waitFor()
  await card.getByText(/^next attempt at/).waitFor()
  await card.getByRole('cell', { name: '500' }).waitFor()
  t.same(await seriousDefects(page), [])
  await card.getByRole('button', { name: 'Deliver again' }).click()
  await card.getByText('delivered').waitFor()
  // On a slow machine the next attempt was made meanwhile, too.
  await card.getByRole('cell', { name: '204' }).first().waitFor()
  t.ok((await card.getByRole('row').count()) >= 3)
  await photograph(page, 'run-webhook')
  t.same(stage.errors(), [])
})

t.test('the firings of a cron, with their runs', async t => {
  const { thread_id } = await post<{ thread_id: string }>('/threads', {})
  const cron = { assistant_id: 'steps', schedule: '* * * * * *', input: { steps: 1 }, multitask_strategy: 'reject' }
  const { cron_id } = await post<{ cron_id: string }>(`/threads/${thread_id}/runs/crons`, cron)
  const firings = async () => {
    const answer = await fetch(`${stage.cluster.url}/runs/crons/${cron_id}/firings`)
    return (await answer.json()) as { run_id: string | null }[]
  }
  await until(async () => (await firings()).length >= 2)
  const change = { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"enabled":false}' }
  await fetch(`${stage.cluster.url}/runs/crons/${cron_id}`, change)
  const page = await stage.open('/crons')
  const row = page.getByRole('row').filter({ hasText: '* * * * * *' })
  await row.getByRole('button', { name: 'Firings' }).click()
  const list = page.getByRole('region', { name: 'Firings' })
  await list.getByText('success').first().waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'crons-firings')
  const { run_id } = (await firings()).find(one => one.run_id !== null)!
  await list.getByRole('link', { name: run_id! }).click()
  await page.getByRole('region', { name: 'Run' }).getByText('success').waitFor()
  t.same(stage.errors(), [])
})

t.test('the run that holds the event loop of a host', async t => {
  const page = await stage.open('/workers')
  const hosts = page.getByRole('table', { name: 'Hosts' })
  await hosts.getByText('no run').first().waitFor()
  t.same(await seriousDefects(page), [])
  const { thread_id } = await post<{ thread_id: string }>('/threads', {})
  const input = { steps: 1, at: 1, harm: 'busy', ms: 20_000 }
  const { run_id } = await post<{ run_id: string }>(`/threads/${thread_id}/runs`, { assistant_id: 'poison', input })
  const link = hosts.getByRole('link', { name: run_id })
  await link.waitFor({ timeout: 20_000 })
  t.same(await seriousDefects(page), [])
  await hosts.scrollIntoViewIfNeeded()
  await photograph(page, 'workers-held')
  await link.click()
  await page.getByRole('region', { name: 'Run', exact: true }).waitFor()
  t.same(stage.errors(), [])
})
