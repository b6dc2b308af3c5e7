import t from 'tap'
import { USUAL_LOAD } from '../../cli/commands/size.js'
import { type Costs, type Load, type RoleCosts, type Size, sizeOf } from '../../cli/commands/size-of.js'
import type { Line } from '../../scripts/bench/report.js'
import { costsOf } from '../../scripts/bench/scale/costs.js'

const cost = (cpu_us: RoleCosts['cpu_us'], messages = 2, message_bytes = 1024): RoleCosts => ({
  cpu_us,
  messages,
  message_bytes,
})
const costs: Costs = {
  at: '2026-01-01T00:00:00.000Z',
  machine: { cores: 2, model: 'm', node: 'v22', weft: '1' },
  write: cost({ edge: 30, nats: 20, resources: 50 }),
  read: cost({ edge: 20, nats: 15, resources: 15 }, 1),
  run: cost({ edge: 50, nats: 60, resources: 100, graphs: 60, host: 600 }, 4),
  run_on_thread: cost({ edge: 50, nats: 90, resources: 200, graphs: 80, host: 800 }, 5),
  checkpoint: cost({ nats: 10, resources: 50, graphs: 10, host: 300 }, 1),
  token: cost({ edge: 2, nats: 1, graphs: 2, host: 40 }, 0.1),
  chunk: cost({ edge: 1, host: 2 }, 0.01),
  stored_chunk: cost({ edge: 1, nats: 1, host: 2 }, 0.02),
  stream_bytes: { edge: 10_000, nats: 1_000 },
  memory_mb: { edge: 80, nats: 40, resources: 100, graphs: 70, host: 150 },
  stored_bytes: { thread: 1_000, run: 3_000, checkpoint: 500, item: 700 },
}
const size = (load: Partial<Load>) => sizeOf({ ...USUAL_LOAD, ...load }, costs)
const roleOf = ({ roles }: Size, name: string) => roles.find(({ role }) => role === name)!

t.test('nothing to do takes one process of each role', async t => {
  const { roles, cores, machines, messages, stored_gb, beyond } = size({})
  t.same(
    roles.map(({ role, busy, processes }) => [role, busy, processes]),
    ['edge', 'nats', 'resources', 'graphs', 'host'].map(role => [role, 0, 1]),
  )
  t.same([cores, machines, messages, stored_gb, beyond], [0, 1, 0, 0, []])
})

t.test('CPU time adds up, and is divided by the utilisation', async t => {
  const found = size({ reads: 10_000, writes: 1_000, utilisation: 0.5 })
  t.match(roleOf(found, 'edge'), { busy: 0.23, processes: 1 })
  t.equal(roleOf(found, 'resources').busy, 0.2)
  t.ok(Math.abs(found.cores - (0.23 + 0.17 + 0.2) / 0.5) < 1e-9)
  t.equal(found.messages, 12_000)
  t.equal(roleOf(size({ reads: 60_000, utilisation: 0.5 }), 'edge').processes, 3)
})

t.test('runs are divided into those on threads and others; each further step costs a checkpoint', async t => {
  t.equal(roleOf(size({ runs: 1_000, on_threads: 0 }), 'host').busy, 0.6)
  t.equal(roleOf(size({ runs: 1_000, on_threads: 0.5 }), 'host').busy, 0.7)
  t.ok(Math.abs(roleOf(size({ runs: 1_000, on_threads: 0, steps: 4 }), 'host').busy - 1.5) < 1e-9)
  t.ok(Math.abs(roleOf(size({ runs: 10, on_threads: 0, tokens: 100 }), 'host').busy - 0.046) < 1e-9)
  t.ok(Math.abs(roleOf(size({ runs: 10, on_threads: 0, run_cpu_ms: 50 }), 'host').busy - 0.506) < 1e-9)
  const half = size({ runs: 10, on_threads: 0, chunks: 1_000, resumable: 0.5 })
  t.ok(Math.abs(roleOf(half, 'nats').busy - (10 * 60 + 5_000) / 1e6) < 1e-9)
})

t.test('runs that wait need slots, and open streams need edges, without CPU time', async t => {
  const waiting = size({ runs: 100, run_seconds: 60 })
  t.match(roleOf(waiting, 'host'), { processes: 6, because: /runs at the same time/ })
  t.match(roleOf(waiting, 'graphs'), { processes: 6, because: /slots/ })
  const open = size({ streams: 25_000 })
  t.match(roleOf(open, 'edge'), { processes: 3, because: /streams/ })
  t.ok(Math.abs(roleOf(open, 'edge').memory_mb - (3 * 80 + (25_000 * 10_000) / 1024 ** 2)) < 1e-6)
  t.match(roleOf(size({ runs: 1, run_cpu_ms: 6_000, cores: 4 }), 'graphs'), { processes: 4, because: '3 hosts each' })
})

t.test('what a single part cannot do is said', async t => {
  const busy = { runs: 5_000 }
  t.match(size(busy).beyond, [/use MongoDB/])
  t.equal(roleOf(size(busy), 'resources').processes, 1)
  t.same(size({ ...busy, store: 'mongo' }).beyond, [])
  t.equal(roleOf(size({ ...busy, store: 'mongo' }), 'resources').processes, 2)
  t.match(size({ reads: 200_000, store: 'mongo' }).beyond, [/The broker alone fills a machine/])
})

t.test('stored bytes are those of the rows', async t => {
  const { stored_gb } = size({ threads: 1_000_000, stored_runs: 2_000_000, steps: 3, items: 10 })
  t.equal(stored_gb, (1_000_000 * 1_000 + 2_000_000 * 4_000 + 10 * 700) / 1024 ** 3)
})

t.test('a number out of its range is refused with one sentence', async t => {
  t.throws(() => size({ reads: -1 }), new RangeError('reads is -1: expected a number from 0'))
  t.throws(() => size({ runs: Number.NaN }), /runs is NaN/)
  t.throws(() => size({ on_threads: 2 }), /expected a share/)
  t.throws(() => size({ utilisation: 0 }), /utilisation is 0/)
  t.throws(() => size({ steps: 0 }), /steps is 0: expected a number from 1/)
})

t.test('the bench writes what the calculator reads', async t => {
  const line = (scenario: string, more: Partial<Line>): Line =>
    ({ scenario, value: 1, also: {}, cpu_share: {}, cpu_us: 0, messages: 1, message_bytes: 100, ...more }) as Line
  const share = { edge: 0.2, nats: 0.1, resources: 0.1, launcher: 0.1, client: 0.9 }
  const found = costsOf({
    at: 'now',
    machine: { cores: 2, model: 'm', node: 'v22', host_node: 'v22', weft: '1', memory_gb: 1, kernel: 'k' },
    lines: [
      line('create-thread', { cpu_us: 50, cpu_share: share }),
      line('run-wait-thread', { cpu_us: 100, cpu_share: { host: 1 }, messages: 4 }),
      line('run-wait-steps', { cpu_us: 400, cpu_share: { host: 1 }, messages: 10 }),
      line('streams-10000', { value: 10_000, also: { edge_mb_added: 100, launcher_mb_added: 1, added_mb: 101 } }),
      line('memory', { also: { all_mb: 500, edge_mb: 80.4, most_mb: 510, slope_mb_per_minute: 1 } }),
      line('stored-bytes', {
        value: 900.4,
        also: { run_of_one_step: 2_000, further_checkpoint: 300, item_of_200: 500 },
      }),
      line('read', { value: null }),
    ],
  })
  t.same(found.write, { cpu_us: { edge: 20, nats: 10, resources: 10 }, messages: 1, message_bytes: 100 })
  t.same(found.checkpoint, { cpu_us: { host: 100 }, messages: 2, message_bytes: 0 })
  t.same(found.stream_bytes, { edge: 10_486 })
  t.same(found.memory_mb, { edge: 80 })
  t.same(found.stored_bytes, { thread: 900, run: 2_000, checkpoint: 300, item: 500 })
  t.notOk('read' in found, 'what was not measured is left out')
})
