import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { entriesOf, KIND } from '../../bus/envelope.js'
import { openMux } from '../../bus/mux.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import { poolCall } from '../../schemas/subjects.js'
import { openHeldTime } from '../../workers/graph/held-time.js'
import type { GraphHost } from '../../workers/graph/host-process.js'
import type { HostPool } from '../../workers/graph/pool.js'
import { openSupervisor } from '../../workers/graph/supervisor.js'
import { ANSWER, ASK, FROM_HOST, type Frame, TO_HOST } from '../../workers/pipe.js'
import { SENDER, type Started, startWorkers, tokenOf, type Workers, within } from '../faults/worker-helper.js'
import { halfOpenProxy } from '../helpers/half-open-proxy.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
const shared = await startWorkers()
t.teardown(() => shared.stop())
const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const body = Buffer.from('id: 0\nevent: x\ndata: {}\n\n')
const frame = { flags: ASK.save, slot: 7, id: 0, count: 1, body }

/** A supervisor without a pool of hosts, and a host that records what it is sent. */
async function stage(weft: Workers = shared) {
  const link = await weft.open('graphs')
  const mux = openMux(link)
  const caller = openCaller(link)
  const pool = token<'pool'>('pool', 'default')
  const supervisor = openSupervisor({ config: readConfig({}), link, mux, caller, pool, worker: 'w', tracer: null })
  const fakeHost = () => {
    const sent: Partial<Frame>[] = []
    const host = {
      slots: new Set(),
      held: openHeldTime(),
      send: (frame: Partial<Frame>) => sent.push(frame),
      pause() {},
      resume() {},
      drained: async () => {},
      kill: () => supervisor.onHostEnd(host, { slot: 0, error: 'E', message: 'killed' }),
    } as unknown as GraphHost
    return { host, sent }
  }
  const stop = async () => {
    await supervisor.stop(100)
    mux.close()
    caller.close()
  }
  return { supervisor, fakeHost, stop }
}

t.test('frames for a slot that was not assigned are dropped and counted', async t => {
  const { supervisor, fakeHost, stop } = await stage()
  t.teardown(stop)
  const { host, sent } = fakeHost()
  for (const kind of [FROM_HOST.chunk, FROM_HOST.ask, FROM_HOST.finish]) supervisor.onFrame(host, { ...frame, kind })
  t.equal(supervisor.foreignFrames(), 3)
  t.equal(supervisor.leaseAge(), 0, 'without runs')
  const call = supervisor.call(host, json({ thread_id: await shared.thread() }))
  const { slot = 0, id = 0 } = sent.shift()!
  supervisor.onFrame(host, { ...frame, slot, kind: FROM_HOST.ask })
  t.equal(supervisor.foreignFrames(), 4, 'a lent slot may not save')
  t.same(sent, [])
  supervisor.onFrame(host, { ...frame, slot, id, kind: FROM_HOST.called, flags: 0, body: json('state') })
  t.same(await call, { body: json('state') })
  t.equal(host.slots.size, 0, 'the slot is given back')
})

t.test('a slot reads the checkpoints of its own thread, not of one that its host names', async t => {
  const { supervisor, fakeHost, stop } = await stage()
  t.teardown(stop)
  const { host, sent } = fakeHost()
  const own = await shared.thread()
  const other = await shared.thread()
  for (const [thread_id, steps] of [
    [own, 1],
    [other, 2],
  ] as const)
    await within(20_000, (await shared.run('steps', { steps }, { thread_id })).ended)
  const call = supervisor.call(host, json({ thread_id: own }))
  const { slot = 0, id = 0 } = sent.shift()!
  const tuples = async (flags: number, thread_id: string) => {
    supervisor.onFrame(host, { ...frame, kind: FROM_HOST.ask, slot, flags, body: json({ thread_id }) })
    await until(() => sent.length > 0)
    const answer = sent.shift()!
    t.match(answer, { kind: TO_HOST.answer, slot, flags: ANSWER.ok })
    return unpack<{ tuples: { id: string }[] }>(answer.body!).head.tuples.map(({ id }) => id)
  }
  for (const flags of [ASK.get, ASK.list]) {
    const ids = await tuples(flags, own)
    t.ok(ids.length > 0)
    t.same(await tuples(flags, other), ids)
  }
  supervisor.onFrame(host, { ...frame, slot, id, kind: FROM_HOST.called, flags: 0 })
  await call
})

t.test('a malformed body is thrown, for the host to be killed', async t => {
  const { supervisor, fakeHost, stop } = await stage()
  t.teardown(stop)
  const { host, sent } = fakeHost()
  const call = supervisor.call(host, json({ thread_id: await shared.thread() }))
  const { slot = 0, id = 0 } = sent.shift()!
  const malformed = { name: 'MalformedFrame' }
  const ask = { ...frame, kind: FROM_HOST.ask, slot, flags: ASK.get }
  t.throws(() => supervisor.onFrame(host, { ...ask, body: Buffer.from('no json') }), malformed)
  t.throws(() => supervisor.onFrame(host, { ...ask, body: json({ thread_id: 7 }) }), malformed)
  const called = { ...frame, kind: FROM_HOST.called, id, flags: 1 }
  t.throws(() => supervisor.onFrame(host, { ...called, body: json({ code: 1 }) }), malformed)
  t.throws(() => supervisor.onFrame(fakeHost().host, { ...called, flags: 0 }), malformed, 'the answer of another host')
  supervisor.onFrame(host, { ...called, body: json({ code: 'constructor', detail: 'd' }) })
  await t.rejects(call, { code: 'internal', message: 'd' })
})

t.test('the answer to a heartbeat stops the runs that are lost, and confirms the others', async t => {
  const weft = await startWorkers()
  t.teardown(() => weft.stop())
  await weft.graphs.stop()
  const { supervisor, fakeHost, stop } = await stage(weft)
  t.teardown(stop)
  const { host, sent } = fakeHost()
  const hosts = { hasReadyHost: () => true, pick: () => host, all: () => [host], isolate() {}, quiet() {} }
  supervisor.offer(hosts as unknown as HostPool, ['steps'], token('member', 'm'))
  supervisor.start()
  const framesOf = (kind: number) => sent.filter(frame => frame.kind === kind)
  const [kept, lost] = [await weft.run('steps', {}), await weft.run('steps', {})]
  await until(() => framesOf(TO_HOST.start).length === 2)
  const slotOf = ({ run_id }: Started) =>
    framesOf(TO_HOST.start).find(({ body }) => unpack<{ run_id: string }>(body!).head.run_id === run_id)!.slot
  const held = await tokenOf(await weft.open('resources'), lost.run_id)
  await until(() => framesOf(TO_HOST.confirm).length >= 2)
  const other = openCaller(await weft.open('graphs'))
  const { run_id, thread_id } = lost
  const lease = { run_id, thread_id, attempt: 1, token: held }
  const back = { charge: false, end: null, error: { error: 'E', message: 'm' }, last_event_id: null }
  await Promise.all([
    other.ask(poolCall(SENDER, 'runs', 'release'), { request_id: 't', lease }, json(back)),
    other.ask(poolCall(SENDER, 'runs', 'claim'), { request_id: 't' }, json({ run_id, thread_id, worker: 'w2' })),
  ])
  other.close()
  const before = sent.length
  await until(() => sent.slice(before).some(({ kind, slot }) => kind === TO_HOST.confirm && slot === slotOf(kept)))
  const after = sent.slice(before).filter(({ kind }) => kind === TO_HOST.confirm || kind === TO_HOST.cancel)
  t.match(after.slice(0, 2), [
    { kind: TO_HOST.cancel, slot: slotOf(lost) },
    { kind: TO_HOST.confirm, slot: slotOf(kept) },
  ])
  t.notOk(after.some(({ kind, slot }) => kind === TO_HOST.confirm && slot === slotOf(lost)))
})

t.test('a graph worker that is connected again sends a heartbeat before the next one is due', async t => {
  const own = await startWorkers({ slots: 1 })
  const proxy = await halfOpenProxy(own.nats.url('graphs'))
  t.teardown(async () => {
    await own.stop()
    await proxy.stop()
  })
  const beats: string[] = []
  const spy = await own.open('resources')
  spy.subscribe(poolCall(SENDER, 'runs', 'heartbeat'), ({ data }) => {
    for (const { kind, body } of entriesOf(data)) {
      if (kind !== KIND.whole) continue
      const { runs } = JSON.parse(Buffer.from(body).toString()) as { runs: { run_id: string }[] }
      for (const { run_id } of runs) beats.push(run_id)
    }
  })
  await spy.nc.flush()
  const steady = await own.run('slow', { ms: 60_000 }, { thread_id: await own.thread() })
  await steady.begun(1)
  // The first worker has no slot left.
  await own.addGraphs({}, proxy.url)
  const cut = await own.run('slow', { ms: 60_000 }, { thread_id: await own.thread() })
  await cut.begun(1)
  const of = ({ run_id }: { run_id: string }) => beats.filter(one => one === run_id).length
  const before = of(steady)
  for (let n = 0; n < 8; n++) {
    const seen = of(cut)
    proxy.cut()
    await until(() => of(cut) > seen, 60_000)
  }
  const periods = of(steady) - before
  t.ok(periods < 5, `eight heartbeats after eight cuts, in ${periods} periods of the other worker`)
  await Promise.all([own.cancel(steady.run_id), own.cancel(cut.run_id)])
})
