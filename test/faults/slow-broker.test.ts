/** Runs whose events the broker takes too slowly. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { halt } from '../helpers/processes.js'
import { startWorkers, within } from './worker-helper.js'

t.setTimeout(120_000)

t.test('a run that is held back reports its end in time, and its host lives', async t => {
  const weft = await startWorkers({ run_timeout_secs: 3, hosts: 1 })
  t.teardown(() => weft.stop())
  const body = { stream_resumable: true }
  const short = async () => {
    const run = await weft.run('steps', { steps: 1 }, { body })
    t.match(await within(20_000, run.ended), { status: 'success' })
    return run.steps()[0]!.pid
  }
  const host = await short()
  const large = await weft.run('many', { count: 4_000, pad: 16_000 }, { body })
  await large.begun(1)
  await halt(weft.nats.pid()!)
  // Longer than a host that does not stop a run may live after the time limit.
  await sleep(10_000)
  process.kill(weft.nats.pid()!, 'SIGCONT')
  t.match(await within(30_000, large.ended), { status: 'timeout' })
  const ids = large.events.map(({ id }) => id)
  t.same(
    ids,
    Array.from({ length: ids.length }, (_, i) => i),
    'without a gap',
  )
  t.equal(large.steps().length, 1)
  t.equal(await short(), host, 'the host is the same')
})
