import t from 'tap'
import { openHostChoice } from '../../workers/graph/host-choice.js'
import type { GraphHost } from '../../workers/graph/host-process.js'

let slots = 0
const hostOf = (): GraphHost =>
  ({ slots: new Set(), reservedFor: null, blocked: false, holder: 0, late: () => 0 }) as unknown as GraphHost

/** `most` hosts at the most, of which `count` are ready. */
function stage({ wanted, count = wanted, most }: { wanted: number; count?: number; most: number }) {
  const ready = Array.from({ length: count }, hostOf)
  const grow = () => {
    if (ready.length >= most) return false
    ready.push(hostOf())
    return true
  }
  const clock = { ms: 0 }
  const choice = openHostChoice({ ready, wanted, grow, now: () => clock.ms })
  const run = (graph_id: string, isolation: 'shared' | 'graph' | 'solo' = 'shared', waited_ms = 0) => {
    const host = choice.pick(graph_id, isolation, waited_ms)
    if (host === null) return null
    const slot = ++slots
    host.slots.add(slot)
    return { host, end: () => void host.slots.delete(slot) }
  }
  return { ready, run, choice, clock }
}

t.test('shared runs are spread over the wanted hosts, and leave the others to isolated graphs', async t => {
  const { ready, run } = stage({ wanted: 2, count: 3, most: 3 })
  const runs = Array.from({ length: 10 }, () => run('a')!)
  t.same(
    ready.map(({ slots }) => slots.size),
    [5, 5, 0],
  )
  t.equal(run('b', 'graph')?.host, ready[2])
  t.equal(run('b', 'graph')?.host, ready[2], 'runs of the graph share its host')
  t.not(run('a')?.host, ready[2])
  for (const { end } of runs) end()
})

t.test('an isolated graph gets its host again after it was idle under load', async t => {
  const { run } = stage({ wanted: 1, most: 3 })
  run('a')
  t.equal(run('b', 'graph'), null, 'a host is started')
  for (let n = 0; n < 5; n++) {
    const isolated = run('b', 'graph')
    const shared = run('a')
    t.ok(isolated)
    t.not(shared?.host, isolated?.host)
    isolated?.end()
    run('a')
  }
})

t.test('all hosts in use by others: one is drained, and shared at last', async t => {
  const { ready, run } = stage({ wanted: 3, most: 3 })
  const runs = Array.from({ length: 6 }, () => run('a')!)
  t.equal(run('b', 'graph'), null)
  const busy = ready.map(({ slots }) => slots.size)
  const later = Array.from({ length: 4 }, () => run('a')!)
  const drained = ready.findIndex(({ slots }, i) => slots.size === busy[i])
  t.ok(drained >= 0, 'a host gets no new runs')
  t.equal(run('b', 'graph'), null, 'it waits')
  t.equal(run('b', 'graph', 60_000)?.host, ready[drained], 'not without end')
  for (const { end } of [...runs, ...later]) end()
})

t.test('the host in which a graph was found to be harmful gets no new run while there is another', async t => {
  const { ready, run, choice, clock } = stage({ wanted: 1, most: 2 })
  const harmful = run('b')!
  choice.drain(harmful.host)
  t.equal(ready.length, 2, 'another host is started')
  t.equal(run('a')?.host, ready[1])
  clock.ms += 60_000
  t.equal(run('a')?.host, ready[0], 'not for ever')

  const alone = stage({ wanted: 1, most: 1 })
  const only = alone.run('b')!
  alone.choice.drain(only.host)
  t.equal(alone.run('a')?.host, only.host, 'the only host stays shared')
})

t.test('a drained host that is empty is taken', async t => {
  const { ready, run } = stage({ wanted: 2, most: 2 })
  const runs = [run('a')!, run('a')!]
  t.equal(run('b', 'graph'), null)
  t.equal(run('c', 'solo'), null)
  const drained = ready.find(host => run('a')?.host !== host)!
  for (const { host, end } of runs) if (host === drained) end()
  t.equal(run('b', 'graph')?.host, drained)
})

t.test('a solo run shares with none, and one host always stays shared', async t => {
  const { ready, run, clock } = stage({ wanted: 2, most: 2 })
  const solo = run('a', 'solo')!
  t.equal(solo.host, ready[1])
  t.equal(run('a')?.host, ready[0])
  t.equal(run('a', 'solo'), null)
  t.equal(run('b', 'graph', 60_000), null, 'an isolated graph waits for its turn')
  clock.ms += 10_000
  t.equal(run('b', 'graph', 60_000)?.host, ready[0], 'not without end')
})

t.test('an isolated graph waits for its turn among isolated runs before it shares a host', async t => {
  const { ready, run, clock } = stage({ wanted: 1, most: 3 })
  run('a')
  while (ready.length < 3) run('b', 'graph')
  const solo = [run('b', 'solo')!, run('b', 'solo')!]
  clock.ms += 9_000
  t.equal(run('b', 'graph', 60_000), null, 'the shared host is not harmed while another run gets a host now and then')
  solo[0]!.end()
  t.equal(run('b', 'graph', 60_000)?.host, solo[0]!.host)
  t.equal(run('c', 'graph', 60_000)?.host, solo[0]!.host, 'more graphs than hosts share among themselves')
  t.equal(ready.length, 3)
})

t.test('a blocked host gets no new run while another can be had', async t => {
  const { ready, run } = stage({ wanted: 1, most: 2 })
  const first = run('a')!
  first.host.blocked = true
  t.equal(run('a'), null, 'another is started')
  t.equal(run('a')?.host, ready[1])
  ready[1]!.blocked = true
  t.ok(run('a'), 'all are blocked')
  first.host.blocked = false
  t.equal(run('a')?.host, ready[0])
})

t.test(
  'a run waits a moment for a host whose event loop is held, and goes to another one when it is blocked',
  async t => {
    for (const isolation of ['shared', 'graph'] as const) {
      const { ready, run } = stage({ wanted: 1, count: 3, most: 3 })
      const { host } = run('a', isolation)!
      host.holder = 1
      t.equal(run('a', isolation), null)
      t.equal(run('a', isolation, 60_000)?.host, host, 'not without end')
      host.holder = 0
      t.equal(run('a', isolation)?.host, host, 'the block was short')
      host.holder = 1
      host.blocked = true
      const other = run('a', isolation) ?? run('a', isolation)
      t.not(other?.host, host, isolation)
      t.ok(ready.includes(other!.host))
    }
  },
)
