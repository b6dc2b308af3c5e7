/** Crons among several resource workers that are killed: one run per slot, and a missed slot is recorded. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { v5 } from 'uuid'
import { CRON_NAMESPACE } from '../../schemas/ids.js'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { startMongo } from '../helpers/stores/mongo-server.js'
import { until } from '../helpers/until.js'

t.setTimeout(240_000)

const EVERY_MS = 2_000
const SLOTS = 12
const EACH = 10

interface Cron {
  cron_id: string
  thread_id: string | null
  next_run_date: string | null
}

t.test('three resource workers fire the same crons while they are killed one after the other', async t => {
  const mongo = await startMongo()
  t.teardown(() => mongo.stop())
  const env = { MONGODB_URL: mongo.url(), WEFT_CRON_SECONDS: '1' }
  const roles = await startRoles({ resources: 3, app: 'test/apps/basic', env })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const client = lines[0]!.connect(url)

  const first = Math.ceil((Date.now() + 3_000) / EVERY_MS) * EVERY_MS
  const body = {
    assistant_id: 'echo',
    input: { text: 'a' },
    schedule: `*/${EVERY_MS / 1_000} * * * * *`,
    end_time: new Date(first + SLOTS * EVERY_MS).toISOString(),
    on_run_completed: 'keep',
  }
  const make = async (path: string) => {
    const answer = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) })
    t.equal(answer.status, 200)
    return (await answer.json()) as Cron
  }
  const threads = await Promise.all(Array.from({ length: EACH }, () => client.threads.create()))
  const crons = await Promise.all([
    ...threads.map(({ thread_id }) => make(`/threads/${thread_id}/runs/crons`)),
    ...threads.map(() => make('/runs/crons')),
  ])

  const workers: Proc[] = [...roles.resources]
  for (let n = 0; n < 4; n++) {
    await sleep(EVERY_MS * 1.3)
    workers.shift()!.kill('SIGKILL')
    workers.push(await roles.add('resources'))
  }
  const next = async ({ cron_id }: Cron) => {
    const answer = await fetch(`${url}/runs/crons/${cron_id}`)
    return answer.status === 200 ? ((await answer.json()) as Cron).next_run_date : undefined
  }
  await sleep(Date.parse(body.end_time) - Date.now())
  await until(async () => (await Promise.all(crons.map(next))).every(date => date === null), 120_000)

  for (const cron of crons) {
    const slots: ({ metadata: { [key: string]: unknown } } | null)[] = []
    // The first slot of the first cron may pass while the others are created.
    for (let slot = Date.parse(cron.next_run_date!); slot < Date.parse(body.end_time); slot += EVERY_MS) {
      const run_id = v5(`${cron.cron_id}:${slot}`, CRON_NAMESPACE)
      const thread_id = cron.thread_id ?? v5(run_id, CRON_NAMESPACE)
      await until(async () => {
        const answer = await fetch(`${url}/threads/${thread_id}/runs/${run_id}`)
        const run = (await answer.json()) as { status: string; metadata: { [key: string]: unknown } }
        if (answer.status === 404) slots.push(null)
        else if (answer.status === 200 && run.status === 'success') slots.push(run)
        else return false
        return true
      }, 60_000)
    }
    const made = slots.filter(Boolean).length
    const found =
      cron.thread_id === null
        ? await client.threads.search({ metadata: { cron_id: cron.cron_id }, limit: 100 })
        : await client.runs.list(cron.thread_id, { limit: 100 })
    t.equal(found.length, made, `${made} runs, each that of a slot`)
    t.ok(made > 0)
    for (const [n, slot] of slots.entries()) {
      const after = slots.slice(n + 1).find(Boolean)
      if (slot === null && after) t.ok(after.metadata.cron_late, 'the next slot records a missed one')
    }
  }
})
