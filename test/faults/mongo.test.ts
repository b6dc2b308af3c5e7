/** What the store in MongoDB promises: several resource workers share it, and its death loses nothing accepted. */
import t, { type Test } from 'tap'
import { type Roles, startRoles } from '../helpers/cluster.js'
import { startMongo, startOwnMongo } from '../helpers/mongo-server.js'
import { lines } from '../helpers/sdk.js'
import { type Deeds, deedLogs, until } from '../helpers/steps.js'
import { load, settled } from './load.js'

t.setTimeout(400_000)
const APP = 'test/apps/faults'

/** Runs of three steps, each with a log of its own. */
function counted() {
  const logs = deedLogs()
  const all: Deeds[] = []
  return {
    all,
    remove: logs.remove,
    next() {
      const deeds = logs.log()
      all.push(deeds)
      return { assistant_id: 'steps', input: { log: deeds.file, steps: 3 } }
    },
  }
}

function onlyUnavailable(t: Test, refused: readonly number[], { resources, added }: Roles) {
  t.same(
    [...new Set(refused)].filter(status => ![0, 503].includes(status)),
    [],
    'refused only as unavailable',
  )
  const failures = [...resources, ...added].flatMap(({ output }) =>
    output()
      .split('\n')
      .filter(line => line.includes('a handler failed')),
  )
  t.same(failures, [], 'no call failed for a reason that nobody knows')
}

const goesOn = async (roles: Roles, accepted: readonly unknown[], more = 20) => {
  const before = accepted.length
  await until(
    async () => accepted.length >= before + more && (await fetch(`${roles.urls[0]}/ready`)).status === 200,
    120_000,
  )
}

t.test('the database dies and comes back, twice, under load: nothing accepted is lost', async t => {
  const mongo = await startOwnMongo()
  t.teardown(() => mongo.stop())
  const roles = await startRoles({ app: APP, env: { MONGODB_URL: mongo.url('weft') } })
  t.teardown(() => roles.stop())
  const { all, next, remove } = counted()
  t.teardown(remove)
  const { accepted, refused, stop } = load(roles, next)
  await goesOn(roles, accepted)
  for (let i = 0; i < 2; i++) {
    await mongo.kill()
    await until(async () => (await fetch(`${roles.urls[0]}/ready`)).status === 503)
    await mongo.restart()
    await goesOn(roles, accepted)
  }
  await stop()
  const states = await settled(roles.urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  onlyUnavailable(t, refused, roles)
  t.ok(refused.includes(503), 'some calls were refused meanwhile')
  const ran = all.filter(deeds => deeds.steps().length > 0)
  t.ok(ran.length >= accepted.length)
  for (const deeds of ran) t.same([...new Set(deeds.steps())], [1, 2, 3], 'every step was made')
})

t.test(
  'of three resource workers one is killed under load: calls and runs go on, no run is executed twice',
  async t => {
    const mongo = await startMongo()
    t.teardown(() => mongo.stop())
    const roles = await startRoles({ resources: 3, graphs: 2, app: APP, env: { MONGODB_URL: mongo.url() } })
    t.teardown(() => roles.stop())
    const { all, next, remove } = counted()
    t.teardown(remove)
    const { accepted, refused, stop } = load(roles, next)
    await goesOn(roles, accepted)
    roles.resources[0]!.kill('SIGKILL')
    await goesOn(roles, accepted, 60)
    roles.resources[1]!.kill('SIGKILL')
    await goesOn(roles, accepted)
    await stop()
    const states = await settled(roles.urls[0]!, accepted)
    t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
    onlyUnavailable(t, refused, roles)
    const ran = all.filter(deeds => deeds.steps().length > 0)
    for (const deeds of ran) t.same(deeds.steps(), [1, 2, 3], 'every step was made once')
  },
)

t.test('three resource workers, many callers on few threads: one run at a time, each of them once', async t => {
  const mongo = await startMongo()
  t.teardown(() => mongo.stop())
  const roles = await startRoles({ resources: 3, graphs: 2, app: APP, env: { MONGODB_URL: mongo.url() } })
  t.teardown(() => roles.stop())
  const client = lines[0]!.connect(roles.urls[0]!)
  const logs = deedLogs()
  t.teardown(logs.remove)
  const threads = await Promise.all(Array.from({ length: 4 }, () => client.threads.create()))
  const made: { thread_id: string; run_id: string }[] = []
  const deeds = new Map<string, Deeds[]>()
  await Promise.all(
    threads.flatMap(({ thread_id }) =>
      Array.from({ length: 12 }, async () => {
        const log = logs.log()
        deeds.set(thread_id, [...(deeds.get(thread_id) ?? []), log])
        made.push(
          await client.runs.create(thread_id, 'slow', {
            input: { log: log.file, ms: 100 },
            multitaskStrategy: 'enqueue',
          }),
        )
      }),
    ),
  )
  const states = await settled(roles.urls[0]!, made)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  for (const logs of deeds.values()) {
    const starts = logs.flatMap(log => log.all()).map(({ at }) => at)
    t.equal(starts.length, 12, 'each run was executed once')
    starts.sort((a, b) => (a < b ? -1 : 1))
    const gaps = starts.slice(1).map((at, i) => at - starts[i]!)
    t.same(
      gaps.filter(gap => gap < 100_000_000n),
      [],
      'none began before the one before it had waited its 100 ms',
    )
  }
})

t.test('what is announced to one resource worker is known to all, also to one that comes later', async t => {
  const mongo = await startMongo()
  t.teardown(() => mongo.stop())
  const env = { MONGODB_URL: mongo.url() }
  const roles = await startRoles({ resources: 2, graphs: 0, app: APP, env })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  await roles.add('graphs', ['--app', APP, '--pool', 'special'])
  const client = lines[0]!.connect(url)
  const run = async () => (await client.runs.wait(null, 'slow', { input: { ms: 1 } })) as { done: number[] }
  // The queue group gives the calls to one worker or the other, as it likes.
  for (const { done } of await Promise.all(Array.from({ length: 20 }, run))) t.same(done, [1])
  await roles.add('resources')
  for (const { kill } of roles.resources) kill('SIGKILL')
  await until(async () => (await fetch(`${url}/ready`)).status === 200)
  for (const { done } of await Promise.all(Array.from({ length: 20 }, run))) t.same(done, [1])
})
