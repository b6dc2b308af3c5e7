/** The promises of a database server: resource workers share it, and no accepted run is lost when it dies. */
import t, { type Test } from 'tap'
import { type Roles, startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type StepLog, stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'
import { finalStatuses, load } from './load.js'

const APP = 'test/apps/faults'

/** Runs of three steps, each with its own log; every other one stores a checkpoint before its next step starts. */
function counted() {
  const logs = stepLogs()
  const all: (StepLog & { sync: boolean })[] = []
  return {
    all,
    remove: logs.remove,
    next() {
      const sync = all.length % 2 === 0
      const stepLog = { ...logs.log(), sync }
      all.push(stepLog)
      return {
        assistant_id: 'steps',
        input: { log: stepLog.file, steps: 3 },
        ...(sync ? { durability: 'sync' as const } : {}),
      }
    },
  }
}

/** The steps of each attempt: one begins where a step is not the next one. */
function attemptsOf(steps: readonly number[]): number[][] {
  const attempts: number[][] = []
  for (const step of steps)
    if (step === (attempts.at(-1)?.at(-1) ?? 0) + 1 && attempts.length > 0) attempts.at(-1)!.push(step)
    else attempts.push([step])
  return attempts
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
  t.same(failures, [], 'no call failed with an internal error')
}

const goesOn = async (roles: Roles, accepted: readonly unknown[], more = 20) => {
  const before = accepted.length
  await until(
    async () => accepted.length >= before + more && (await fetch(`${roles.urls[0]}/ready`)).status === 200,
    120_000,
  )
}

/** A server whose databases each use is one of, and which may be killed when the test has started it. */
interface Databases<Server, Own> {
  start(): Promise<Server & { stop(): Promise<void> }>
  startOwn(): Promise<Own & { stop(): Promise<void>; kill(): Promise<void>; restart(): Promise<void> }>
  /** The settings for a new database. */
  envOf(server: Server | Own): Promise<{ [name: string]: string }>
}

export function sharedStoreFaults<Server, Own>({ start, startOwn, envOf }: Databases<Server, Own>): void {
  t.setTimeout(400_000)

  t.test('the database is killed and restarted twice under load: no accepted run is lost', async t => {
    const server = await startOwn()
    t.teardown(() => server.stop())
    const roles = await startRoles({ app: APP, env: await envOf(server) })
    t.teardown(() => roles.stop())
    const { all, next, remove } = counted()
    t.teardown(remove)
    const { accepted, refused, stop } = load(roles, next)
    await goesOn(roles, accepted)
    for (let i = 0; i < 2; i++) {
      await server.kill()
      await until(async () => (await fetch(`${roles.urls[0]}/ready`)).status === 503)
      await server.restart()
      await goesOn(roles, accepted)
    }
    await stop()
    const states = await finalStatuses(roles.urls[0]!, accepted)
    t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
    onlyUnavailable(t, refused, roles)
    t.ok(refused.includes(503), 'some calls were refused during the outage')
    const ran = all.filter(stepLog => stepLog.steps().length > 0)
    t.ok(ran.length >= accepted.length)
    for (const stepLog of ran) {
      // A step may run again after the outage, when its checkpoint could not be stored. Only without `sync` may the steps
      // that were executed while that checkpoint was on its way run again, too.
      const steps = stepLog.steps()
      t.same([...new Set(steps)], [1, 2, 3], 'every step was executed')
      const attempts = attemptsOf(steps)
      t.ok(attempts.length <= 3, `no more attempts than outages: ${steps}`)
      for (const [i, attempt] of attempts.entries())
        if (i > 0) {
          const last = attempts[i - 1]!.at(-1)!
          t.ok(stepLog.sync ? attempt[0] === last : attempt[0]! <= last, `${stepLog.sync ? 'sync' : 'async'}: ${steps}`)
        }
    }
  })

  t.test(
    'two of three resource workers are killed under load: calls and runs continue, no run is executed twice',
    async t => {
      const server = await start()
      t.teardown(() => server.stop())
      const roles = await startRoles({ resources: 3, graphs: 2, app: APP, env: await envOf(server) })
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
      const states = await finalStatuses(roles.urls[0]!, accepted)
      t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
      onlyUnavailable(t, refused, roles)
      const ran = all.filter(stepLog => stepLog.steps().length > 0)
      for (const stepLog of ran) t.same(stepLog.steps(), [1, 2, 3], 'every step was executed once')
    },
  )

  t.test('three resource workers, many callers on few threads: one run at a time, each run once', async t => {
    const server = await start()
    t.teardown(() => server.stop())
    const roles = await startRoles({ resources: 3, graphs: 2, app: APP, env: await envOf(server) })
    t.teardown(() => roles.stop())
    const client = lines[0]!.connect(roles.urls[0]!)
    const logs = stepLogs()
    t.teardown(logs.remove)
    const threads = await Promise.all(Array.from({ length: 4 }, () => client.threads.create()))
    const made: { thread_id: string; run_id: string }[] = []
    const stepLog = new Map<string, StepLog[]>()
    await Promise.all(
      threads.flatMap(({ thread_id }) =>
        Array.from({ length: 12 }, async () => {
          const log = logs.log()
          stepLog.set(thread_id, [...(stepLog.get(thread_id) ?? []), log])
          made.push(
            await client.runs.create(thread_id, 'slow', {
              input: { log: log.file, ms: 100 },
              multitaskStrategy: 'enqueue',
            }),
          )
        }),
      ),
    )
    const states = await finalStatuses(roles.urls[0]!, made)
    t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
    for (const logs of stepLog.values()) {
      const starts = logs.flatMap(log => log.all()).map(({ at }) => at)
      t.equal(starts.length, 12, 'each run was executed once')
      starts.sort((a, b) => (a < b ? -1 : 1))
      const gaps = starts.slice(1).map((at, i) => at - starts[i]!)
      t.same(
        gaps.filter(gap => gap < 100_000_000n),
        [],
        'no run began before the previous one had waited its 100 ms',
      )
    }
  })

  t.test('all resource workers know an announcement to one of them, also a worker that starts later', async t => {
    const server = await start()
    t.teardown(() => server.stop())
    const env = await envOf(server)
    const roles = await startRoles({ resources: 2, graphs: 0, app: APP, env })
    t.teardown(() => roles.stop())
    const url = roles.urls[0]!
    await roles.add('graphs', ['--app', APP, '--pool', 'special'])
    const client = lines[0]!.connect(url)
    const run = async () => (await client.runs.wait(null, 'slow', { input: { ms: 1 } })) as { done: number[] }
    // The queue group distributes the calls over the workers at random.
    for (const { done } of await Promise.all(Array.from({ length: 20 }, run))) t.same(done, [1])
    await roles.add('resources')
    for (const { kill } of roles.resources) kill('SIGKILL')
    await until(async () => (await fetch(`${url}/ready`)).status === 200)
    for (const { done } of await Promise.all(Array.from({ length: 20 }, run))) t.same(done, [1])
  })
}
