import t from 'tap'
import { basicServer } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(60_000)

t.test('runs that start later', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const ended = async (thread_id: string, run_id: string) => {
    await client.runs.join(thread_id, run_id)
    const run = await client.runs.get(thread_id, run_id)
    return { status: run.status, at: Date.parse(run.updated_at), made: Date.parse(run.created_at) }
  }

  await t.test('a delayed run does not start early, on an existing or a new thread', async t => {
    const { thread_id } = await client.threads.create()
    const run = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 0.7 })
    t.equal(run.status, 'pending')
    const { status, at, made } = await ended(thread_id, run.run_id)
    t.equal(status, 'success')
    t.ok(at - made >= 700)
    const before = Date.now()
    await client.runs.wait(null, 'echo', { input: {}, afterSeconds: 0.5 })
    t.ok(Date.now() - before >= 500)
  })

  await t.test('each run starts at its time, in any order of creation', async t => {
    const { thread_id } = await client.threads.create()
    const last = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 3_600 })
    const second = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 1 })
    const first = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 0.5 })
    const now = await client.runs.create(thread_id, 'echo', { input: {} })
    const ends = [
      await ended(thread_id, now.run_id),
      await ended(thread_id, first.run_id),
      await ended(thread_id, second.run_id),
    ].map(({ at }) => at)
    t.same(
      ends,
      ends.toSorted((a, b) => a - b),
    )
    t.equal(
      (await client.runs.get(thread_id, last.run_id)).status,
      'pending',
      'the rest of the line does not wait for it',
    )
    await client.runs.cancel(thread_id, last.run_id)
    t.equal((await client.runs.get(thread_id, last.run_id)).status, 'interrupted')
  })
})
