/** The choice of the next run: priority, shares of tenants, limits, and a view of the store that is a moment old. */
import t from 'tap'
import type { Scheduling } from '../../../schemas/auth/scheduling.js'
import type { ReadyRun } from '../../../store/rows/runs.js'
import { openChoice, type View } from '../../../workers/resources/scheduling/choice.js'

/** A store of waiting and running runs, and a clock that moves by hand. */
function world(scheduling: Scheduling, rates?: NonNullable<View['rates']>) {
  let no = 0
  let clock = 0
  let reads = 0
  const waiting: ReadyRun[] = []
  const running: ReadyRun[] = []
  const choice = openChoice(
    scheduling,
    {
      async ready(per, tenants) {
        reads++
        const names = [...new Set(waiting.map(({ tenant }) => tenant))].sort().slice(0, tenants)
        return names.flatMap(name =>
          waiting
            .filter(({ tenant }) => tenant === name)
            .sort((a, b) => a.priority - b.priority || a.created_at - b.created_at)
            .slice(0, per),
        )
      },
      occupied: async () => running.map(run => ({ ...run, count: 1 })),
      goes: async (pool, to) => pool === to || pool === 'earlier',
      ...(rates === undefined ? {} : { rates }),
    },
    () => clock,
  )
  return {
    reads: () => reads,
    pass(ms: number) {
      clock += ms
    },
    wait(tenant: string | null, count = 1, more: Partial<ReadyRun> = {}) {
      for (let i = 0; i < count; i++)
        waiting.push({
          run_id: `${tenant}-${++no}`,
          thread_id: `thread-${no}`,
          pool: 'default',
          tenant,
          priority: 0,
          created_at: no,
          graph_id: 'g',
          assistant_id: 'a',
          key_id: null,
          started_at: null,
          ...more,
        })
    },
    /** Chooses and claims. */
    async start(pool = 'default') {
      const run = await choice.next(pool)
      if (typeof run === 'string') return run
      waiting.splice(
        waiting.findIndex(({ run_id }) => run_id === run.run_id),
        1,
      )
      running.push(run)
      return run.run_id
    },
    /** Chooses, and the claim comes to nothing. */
    next: () => choice.next('default'),
    putBack: choice.putBack,
    waitingOf: async (tenant: string, more: number) => (await choice.waiting(tenant, more)).map(({ run_id }) => run_id),
    end: (run_id: string) =>
      running.splice(
        running.findIndex(run => run.run_id === run_id),
        1,
      ),
  }
}

t.test('a tenant with many waiting runs leaves the next slot to another one', async t => {
  const { wait, start, pass } = world({ tenant: 'user' })
  wait('flood', 1_000)
  t.equal(await start(), 'flood-1')
  t.equal(await start(), 'flood-2')
  wait('late')
  pass(201)
  t.equal(await start(), 'late-1001')
  t.equal(await start(), 'flood-3')
})

t.test('weights are shares of the slots', async t => {
  const { wait, start } = world({ tenant: 'user', weights: { large: 3 } })
  wait('large', 40)
  wait('small', 40)
  const started = []
  for (let i = 0; i < 40; i++) started.push(await start())
  t.equal(started.filter(id => id.startsWith('large')).length, 30)
})

t.test('a higher priority comes first, whatever its tenant has; equal ones in their order', async t => {
  const { wait, start } = world({ tenant: 'user' })
  wait('a', 2)
  wait('a', 1, { priority: -5 })
  wait('b', 1, { priority: 5 })
  t.same([await start(), await start(), await start(), await start()], ['a-3', 'a-1', 'a-2', 'b-4'])
  t.equal(await start(), 'none')
})

t.test('limits of tenants, graphs, assistants and keys let others pass', async t => {
  const { wait, start, end, pass } = world({
    tenant: 'user',
    limits: { tenant: 2, tenants: { b: 1 }, graphs: { slow: 1 }, assistants: { x: 1 }, key: 1 },
  })
  wait('a', 4)
  wait('b', 2)
  const first = [await start(), await start(), await start()]
  t.same(first.sort(), ['a-1', 'a-2', 'b-5'])
  t.equal(await start(), 'none')
  end('a-1')
  pass(300)
  t.equal(await start(), 'a-3')
  wait('c', 2, { graph_id: 'slow' })
  wait('d', 2, { assistant_id: 'x' })
  wait('e', 2, { key_id: 'k' })
  pass(300)
  t.same([await start(), await start(), await start(), await start()], ['c-7', 'd-9', 'e-11', 'none'])
})

t.test('a run that was chosen is not chosen again until its claim has come to nothing', async t => {
  const { wait, next, pass } = world({})
  wait(null, 2)
  const [a, b] = [await next(), await next()]
  t.not(a, b)
  t.equal(await next(), 'later')
  pass(6_000)
  t.match(await next(), { run_id: 'null-1' })
})

t.test('calls of one moment get different runs, and share a read of the store', async t => {
  const { wait, next, reads } = world({ tenant: 'user' })
  wait('a', 20)
  const all = await Promise.all(Array.from({ length: 20 }, next))
  t.equal(new Set(all.map(run => (typeof run === 'string' ? run : run.run_id))).size, 20)
  t.equal(reads(), 1)
})

t.test('a pool gets its own runs and those of pools that it replaces', async t => {
  const { wait, start } = world({ tenant: 'user' })
  wait('a', 1, { pool: 'other' })
  wait('a', 1, { pool: 'earlier' })
  t.equal(await start(), 'a-2')
  t.equal(await start(), 'none')
  t.equal(await start('other'), 'a-1')
})

t.test('a tenant that its rate lets wait leaves slots to others, and keeps the order of its runs', async t => {
  let left = 2
  const asked: string[] = []
  const { wait, start, next, putBack, waitingOf, pass } = world(
    { tenant: 'user' },
    {
      isPaused: tenant => tenant === 'known' || (tenant === 'paced' && left < 0),
      choose(tenant) {
        asked.push(tenant)
        return tenant === 'free' ? null : Promise.resolve(left-- > 0)
      },
      chosen_ms: 1_000,
    },
  )
  wait('known', 2)
  wait('paced', 4)
  wait('known', 1, { started_at: 1 })
  t.same(await Promise.all([start(), start(), start(), start()]), ['paced-3', 'known-7', 'paced-4', 'none'])
  t.notOk(asked.includes('known'), 'a later attempt counts for no rate')
  wait('free', 1)
  pass(300)
  t.equal(await start(), 'free-8')
  left = 1
  t.match(await next(), { run_id: 'paced-5' })
  putBack('paced-5')
  left = 1
  t.match(await next(), { run_id: 'paced-5' }, 'its claim was refused')
  t.same(await waitingOf('paced', 1), ['paced-5', 'paced-6'], 'the chosen one, too')
  t.same(await waitingOf('known', 0), ['known-1', 'known-2'])
})

t.test('runs that are counted are no older than the question', async t => {
  const { wait, next, waitingOf, reads } = world({ tenant: 'user' })
  wait('a', 2)
  await next()
  t.equal((await waitingOf('a', 1)).length, 2)
  t.equal(reads(), 1, 'enough are known')
  wait('a', 1)
  t.equal((await waitingOf('a', 2)).length, 3)
})
