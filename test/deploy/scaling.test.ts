/** Scaling by load: up at once, down after the quiet time, to zero and back with the first run. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import type { ActiveDeployment } from '../../schemas/deploy-calls.js'
import { openScaler } from '../../workers/deploy/scaler.js'
import { openScale, rangeOf } from '../../workers/deploy/scaling.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { application, makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(180_000)

t.test('the range of a resource_spec', async t => {
  t.same(rangeOf(null), { min: 1, max: 1 })
  t.same(rangeOf({ min_scale: 2, max_scale: 5 }), { min: 2, max: 5 })
  t.same(rangeOf({ min_scale: 2, max_scale: 5, queue_max_scale: 9 }), { min: 2, max: 9 })
  t.same(rangeOf({ queue_min_scale: 3 }), { min: 3, max: 3 })
  t.same(rangeOf({ queue_min_scale: 3, max_scale: 2 }), { min: 3, max: 3 }, 'the minimum wins')
  t.same(rangeOf({ min_scale: 0 }), { min: 0, max: 1 })
})

t.test('up at once, down after the quiet time', async t => {
  const scale = openScale({ runs_each: 10, down_ms: 100 }, { min: 0, max: 4 }, 1, 0)
  const steps: [now: number, runs: number, replicas: number][] = [
    [0, 0, 1],
    [10, 1, 1],
    [20, 11, 2],
    [30, 1_000, 4],
    [40, 0, 4],
    [125, 25, 4],
    [129, 0, 4],
    [130, 0, 3],
    [224, 1, 3],
    [225, 0, 1],
    [323, 0, 1],
    [324, 0, 0],
    [325, 1, 1],
  ]
  for (const [now, runs, replicas] of steps) t.equal(scale.observe(runs, now), replicas, `${runs} runs at ${now}`)
  const alternating = openScale({ runs_each: 10, down_ms: 100 }, { min: 1, max: 4 }, 1, 0)
  alternating.observe(30, 0)
  const seen = new Set(Array.from({ length: 50 }, (_, i) => alternating.observe(i % 2 === 0 ? 30 : 0, i * 90)))
  t.same([...seen], [3], 'a load that comes and goes changes nothing')
})

t.test('a queue that cannot be read changes nothing, a message wakes', async t => {
  let present = 2
  const scaled: number[] = []
  let runs: number | null = null
  let wake: (() => void) | null = null
  let changed = () => {}
  const scaler = openScaler({
    scaling: {
      replicas: id => (id === 'r1' ? present : null),
      async scale(_, n) {
        scaled.push(n)
        present = n
        changed()
      },
    },
    rules: { runs_each: 10, down_ms: 20 },
    runs: async () => {
      if (runs === null) throw new Error('no broker')
      return runs
    },
    listen(_, onMessage) {
      wake = onMessage
      return () => void (wake = null)
    },
    log: openLog('test', 'silent'),
  })
  t.teardown(() => scaler.stop())
  const next = () => new Promise<void>(done => (changed = done))
  const active = (revision_id: string) =>
    ({ revision_id, generation: 1, pool: 'p', resource_spec: { min_scale: 0, max_scale: 3 } }) as ActiveDeployment
  scaler.update([active('r1'), active('elsewhere')])
  await sleep(100)
  t.same(scaled, [])
  let change = next()
  runs = 0
  await change
  t.same(scaled, [0])
  runs = null
  change = next()
  t.type(wake, 'function')
  wake!()
  await change
  t.same(scaled, [0, 1], 'also when the queue cannot be read')
  change = next()
  runs = 29
  await change
  t.same(scaled, [0, 1, 3])
  scaler.update([])
  runs = 0
  await sleep(100)
  t.same(scaled, [0, 1, 3], 'a revision that is no longer active is left alone')
})

t.test('a deployment that scales to zero', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const env = { ...deployEnv(folder), WEFT_SCALE_RUNS: '2', WEFT_SCALE_DOWN_MS: '1500' }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  /** The numbers of replicas so far. */
  const sizes = () =>
    [...cluster.output().matchAll(/"to":(\d+),"msg":"scaling a revision"/g)].map(([, to]) => Number(to))
  const reaches = async (n: number, from: number) => {
    while (!sizes().slice(from).includes(n)) await sleep(50)
  }
  const resource_spec = { queue_min_scale: 0, queue_max_scale: 2 }
  const made = await control.create('sleeper', makeRepository(folder, 'sleeper', application('awake')).url, {
    config: { resource_spec },
  })
  await control.deployed(made)
  const client = lines[0]!.connect(control.urlOf(made))
  await reaches(0, 0)
  t.match(
    await client.runs.wait(null, 'agent', { input: { text: 'x' } }),
    { answer: 'awake x' },
    'the first run wakes it',
  )
  let seen = sizes().length
  t.same(sizes(), [0, 1])
  await reaches(0, seen)
  // Answered 503 when the worker needs more than some seconds to start.
  const ask = () => fetch(`${control.urlOf(made)}/assistants/agent/schemas`)
  let answer = await ask()
  while (answer.status === 503) answer = await ask()
  t.match(await answer.json(), { graph_id: 'agent' }, 'a question about its graph wakes it too')
  seen = sizes().length
  const until = join(folder, 'go-on')
  const thread = await client.threads.create()
  const started = await client.runs.create(thread.thread_id, 'agent', { input: { text: 'held', until } })
  const others = Array.from({ length: 4 }, () => client.runs.wait(null, 'agent', { input: { text: 'more', until } }))
  await reaches(2, seen)
  t.ok(
    sizes().every(n => n <= 2),
    'five runs need two replicas of at most two',
  )
  writeFileSync(until, '')
  for (const values of await Promise.all(others)) t.match(values, { answer: 'awake more' })
  t.match(await client.runs.join(thread.thread_id, started.run_id), { answer: 'awake held' })
  seen = sizes().length
  await reaches(0, seen)
  const behind = client.runs.wait(null, 'agent', { input: { text: 'during a cutover' } })
  await control.deployed(await control.again(made.id))
  t.match(await behind, { answer: 'awake during a cutover' })
  t.equal((await control.remove(made.id)).status, 204)
  while ((await control.ask('GET', `/v2/deployments/${made.id}`)).status !== 404) await sleep(100)
})
