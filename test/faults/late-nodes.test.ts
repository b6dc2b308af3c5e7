/**
 * No node of an old attempt begins after the next attempt was claimed, whatever cuts a graph worker off, in which order
 * permission and loss reach it when it is back, and with every durability. Hosts for both languages.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openLink } from '../../bus/connect.js'
import { followThread } from '../../bus/events.js'
import { openLog } from '../../bus/log.js'
import { root } from '../../cli/root.js'
import { poolCall } from '../../schemas/subjects.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { below, commandOf, type Proc, startRoles } from '../helpers/cluster.js'
import { type HalfOpenProxy, halfOpenProxy } from '../helpers/half-open-proxy.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'
import { type CallProxy, callProxy } from './harness/call-proxy.js'
import { begunIn, byKey, lateNodes, overlaps } from './harness/witness.js'
import { SENDER } from './worker-helper.js'

t.setTimeout(240_000)
const HEARTBEAT = poolCall(SENDER, 'runs', 'heartbeat')
const SAVE = poolCall(SENDER, 'checkpoints', 'save')
/** All runs of a worker are in this step when it is cut off. */
const HOLD = 3
/** More than a host executes before its leases are too old. */
const STEPS = 32
const MS = 400

interface Worker {
  proc: Proc
  net: HalfOpenProxy
  calls: CallProxy
  /** Sends a signal to its hosts. */
  signalHosts(signal: NodeJS.Signals): void
}

interface Fault {
  name: string
  durability: 'async' | 'sync' | 'exit'
  cut(worker: Worker): unknown
  /** Its saves, which are refused, arrive after a heartbeat whose answer names the runs that are lost. */
  back(worker: Worker): unknown
  /** Its runs keep their leases. */
  keeps?: true
}

/** The answer to a heartbeat is in the socket of the supervisor when that continues. */
async function pauseWithAnswer({ proc, net, calls }: Worker): Promise<void> {
  net.freeze('in')
  const before = calls.passed(HEARTBEAT)
  await until(() => calls.passed(HEARTBEAT) > before)
  proc.kill('SIGSTOP')
  net.thaw()
}

const faults: Fault[] = [
  {
    name: 'a partition',
    durability: 'async',
    cut({ net, calls }) {
      calls.hold(SAVE)
      net.freeze()
    },
    back: ({ net }) => net.thaw(),
  },
  {
    name: 'heartbeats that are lost, while saves arrive',
    durability: 'sync',
    cut: ({ calls }) => calls.hold(HEARTBEAT),
    back: ({ calls }) => calls.pass(),
  },
  {
    name: 'a paused supervisor',
    durability: 'async',
    cut: pauseWithAnswer,
    back({ proc, calls }) {
      calls.hold(SAVE)
      proc.kill('SIGCONT')
    },
  },
  {
    name: 'a paused worker, whose hosts continue first',
    durability: 'exit',
    async cut(worker) {
      await pauseWithAnswer(worker)
      worker.signalHosts('SIGSTOP')
    },
    async back({ proc, signalHosts }) {
      signalHosts('SIGCONT')
      await sleep(500)
      proc.kill('SIGCONT')
    },
  },
  {
    name: 'a paused worker, whose supervisor continues first',
    durability: 'async',
    async cut(worker) {
      await pauseWithAnswer(worker)
      worker.signalHosts('SIGSTOP')
    },
    async back({ proc, calls, signalHosts }) {
      calls.hold(SAVE)
      proc.kill('SIGCONT')
      await until(() => /a run is stopped/.test(proc.output()))
      signalHosts('SIGCONT')
    },
  },
  {
    name: 'paused hosts alone',
    durability: 'async',
    cut: ({ signalHosts }) => signalHosts('SIGSTOP'),
    back: ({ signalHosts }) => signalHosts('SIGCONT'),
    keeps: true,
  },
]

t.test('a cancelled run whose worker is cut off ends when it starts no node any more', async t => {
  const roles = await startRoles({ app: 'test/apps/faults', graphs: 0 })
  const net = await halfOpenProxy(roles.nats.url('graphs'))
  t.teardown(async () => {
    net.thaw()
    await roles.stop()
    await net.stop()
  })
  const calls = await callProxy(net.url)
  t.teardown(() => calls.stop())
  const proc = await roles.add('graphs', undefined, { NATS_URL: calls.url })
  const client = lines[0]!.connect(roles.urls[0]!)
  const file = join(t.testdir(), 'witness.log')
  const runs: { thread_id: string; run_id: string; key: string }[] = []
  for (const key of ['cancelled', 'removed']) {
    const { thread_id } = await client.threads.create()
    const input = { file, key, steps: 100, ms: 200 }
    const { run_id } = await client.runs.create(thread_id, 'witness', { input, config: { recursion_limit: 200 } })
    runs.push({ thread_id, run_id, key })
  }
  // A run without a heartbeat may still be on its way to its worker.
  await until(() => calls.passed(HEARTBEAT) > 1 && byKey(begunIn(file)).size === 2)
  net.freeze()
  // The broker sees that the connection is gone, and no new one is answered.
  net.cut()
  const [cancelled, removed] = runs as [(typeof runs)[0], (typeof runs)[0]]
  const ended = async (work: Promise<unknown>) => {
    await work
    return process.hrtime.bigint()
  }
  const [cancelled_at, removed_at] = await Promise.all([
    ended(client.runs.cancel(cancelled.thread_id, cancelled.run_id, true)),
    ended(client.threads.delete(removed.thread_id)),
  ])
  t.equal((await client.runs.get(cancelled.thread_id, cancelled.run_id)).status, 'interrupted')
  net.thaw()
  await until(
    () =>
      proc
        .output()
        .split('\n')
        .filter(line => /a run is stopped/.test(line)).length === 2,
  )
  const late = (key: string, at: bigint) =>
    byKey(begunIn(file))
      .get(key)!
      .filter(node => node.at > at).length
  t.equal(late(cancelled.key, cancelled_at), 0, 'no node began after the answer to the cancel')
  t.equal(late(removed.key, removed_at), 0, 'nor after the answer to the deletion of the thread')
})

t.test('no node of an old attempt begins after the claim of the next one', async t => {
  const python = withoutPython() === null
  const graphs = python ? ['witness', 'witness-py'] : ['witness']
  const roles = await startRoles({
    app: python ? 'test/apps/faults-py' : 'test/apps/faults',
    graphs: 0,
    env: {
      WEFT_HOSTS: '1',
      // Each worker has exactly the runs that are created while it is the newest.
      N_JOBS_PER_WORKER: `${graphs.length}`,
      WEFT_HAND_OVER: 'false',
      ...(python ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) } : {}),
    },
  })
  const file = join(t.testdir(), 'witness.log')
  const log = openLog('test', 'silent')
  const link = await openLink({ url: roles.nats.url('edge'), role: 'edge', log })
  const workers: Worker[] = []
  t.teardown(async () => {
    for (const { proc, net, signalHosts } of workers) {
      proc.kill('SIGCONT')
      signalHosts('SIGCONT')
      net.thaw()
    }
    await link.close()
    await roles.stop()
    for (const { net, calls } of workers) {
      await calls.stop()
      await net.stop()
    }
  })
  const client = lines[0]!.connect(roles.urls[0]!)
  const begun = () => byKey(begunIn(file))

  /** A worker with a run of each graph, and where its runs were claimed again. */
  const begin = async (fault: Fault) => {
    const net = await halfOpenProxy(roles.nats.url('graphs'))
    const calls = await callProxy(net.url)
    const proc = await roles.add('graphs', undefined, { NATS_URL: calls.url })
    const signalHosts = (signal: NodeJS.Signals) => {
      for (const pid of below(proc.pid)) if (/host/.test(commandOf(pid))) process.kill(pid, signal)
    }
    const worker = { proc, net, calls, signalHosts }
    workers.push(worker)
    const runs = await Promise.all(
      graphs.map(async graph => {
        const { thread_id } = await client.threads.create()
        const key = `${fault.name.replaceAll(' ', '-')}-${graph}`
        const input = { file, key, steps: STEPS, ms: MS, hold: HOLD }
        const claims: bigint[] = []
        const { run_id } = await client.runs.create(thread_id, graph, {
          input,
          durability: fault.durability,
          config: { recursion_limit: 100 },
        })
        const stop = followThread(link, thread_id, news => {
          if ('claimed' in news && news.claimed.run_id === run_id && news.claimed.attempt > 1)
            claims.push(process.hrtime.bigint())
        })
        t.teardown(stop)
        await until(() => begun().get(key)?.length === HOLD)
        return { graph, thread_id, run_id, key, claims }
      }),
    )
    return { fault, worker, runs }
  }
  const all: Awaited<ReturnType<typeof begin>>[] = []
  for (const fault of faults) all.push(await begin(fault))
  await roles.add('graphs', undefined, { N_JOBS_PER_WORKER: '100' })
  for (const { runs } of all)
    for (const { graph, thread_id, key } of runs)
      await client.runs.create(thread_id, graph, { input: { file, key: `${key}-next`, steps: 12, ms: MS } })
  await Promise.all(all.map(({ fault, worker }) => fault.cut(worker)))
  writeFileSync(`${file}.released`, '')

  const lost = all.filter(({ fault }) => !fault.keeps)
  const isUnderWay = (key: string) => (begun().get(`${key}-next`)?.length ?? 0) > 0
  await until(() => lost.every(({ runs }) => runs.every(({ key }) => isUnderWay(key))), 90_000)
  await Promise.all(all.map(({ fault, worker }) => fault.back(worker)))
  const isDropped = (output: string, run_id: string) =>
    output.split('\n').some(line => line.includes(run_id) && /a run is stopped|its end was refused/.test(line))
  for (const { fault, worker, runs } of lost)
    for (const { run_id, graph } of runs)
      await until(() => isDropped(worker.proc.output(), run_id), 60_000).catch(() =>
        t.fail(`${fault.name}, ${graph}: the run was not dropped: ${worker.proc.output().slice(-2_000)}`),
      )
  for (const { worker } of lost) worker.calls.pass()
  const ended = async (thread_id: string) =>
    (await client.runs.list(thread_id)).every(({ status }) => status === 'success')
  for (const { runs } of all) for (const { thread_id } of runs) await until(() => ended(thread_id), 60_000)

  const nodes = begunIn(file)
  for (const { fault, runs } of all)
    for (const { graph, key, run_id, claims } of runs) {
      const own = byKey(nodes).get(key)!
      const name = `${fault.name}, ${fault.durability}, ${graph}`
      t.equal(claims.length, fault.keeps ? 0 : 1, `${name}: how often it was claimed again`)
      const late = own.filter(({ attempt, at }) => attempt === 1 && claims.some(claimed => at > claimed))
      t.equal(late.length, 0, `${name}: ${late.length} nodes began late`)
      if (fault.keeps)
        t.same(
          own.map(({ step }) => step),
          Array.from({ length: STEPS }, (_, n) => n + 1),
          name,
        )
      else
        t.ok(
          own.some(({ attempt }) => attempt === 2),
          `${name}: ${run_id} was taken over`,
        )
    }
  t.same(lateNodes(nodes), [], 'nor beside a node of a later run')
  t.same(overlaps(nodes), [], 'and no run executes beside the next one of its thread')
})
