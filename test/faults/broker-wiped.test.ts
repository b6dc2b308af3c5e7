/** The broker's disk is lost under living roles: it comes back with an empty folder. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'

/** The sweep repeats a lost wake-up after 30 s at the earliest. */
const REPAIR_MS = 90_000

const roles = await startRoles()
t.teardown(() => roles.stop())
const url = roles.urls[0]!
const post = async (path: string, body: unknown) => {
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: (await answer.json()) as { [field: string]: unknown } }
}
const statusOf = async (thread_id: unknown, run_id: unknown) =>
  ((await (await fetch(`${url}/threads/${thread_id}/runs/${run_id}`)).json()) as { status: string }).status
const ready = async () => (await fetch(`${url}/ready`)).status

t.test('runs go on after the streams were lost', async t => {
  const { body: first } = await post('/threads', {})
  const input = { messages: [{ role: 'user', content: 'hello' }] }
  const run = (thread_id: unknown) =>
    post(`/threads/${thread_id}/runs`, { assistant_id: 'agent', input, stream_resumable: true })
  t.equal((await run(first.thread_id)).status, 200)
  t.equal(await ready(), 200)

  roles.nats.kill()
  while ((await ready()) === 200) await sleep(50)
  t.equal(await ready(), 503, 'not ready while the broker is away')
  rmSync(join(roles.nats.data, 'nats'), { recursive: true })
  await roles.nats.restart()

  const until = Date.now() + REPAIR_MS
  while ((await ready()) !== 200 && Date.now() < until) await sleep(100)
  t.equal(await ready(), 200, 'ready again, without a restart of any role')
  const made: { thread_id: unknown; run_id: unknown }[] = []
  for (let i = 0; i < 5; i++) {
    const { body: thread } = await post('/threads', {})
    const { status, body } = await run(thread.thread_id)
    t.equal(status, 200)
    made.push({ thread_id: thread.thread_id, run_id: body.run_id })
  }
  for (const { thread_id, run_id } of made) {
    while ((await statusOf(thread_id, run_id)) !== 'success' && Date.now() < until) await sleep(200)
    t.equal(await statusOf(thread_id, run_id), 'success')
  }
})
