import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openMux } from '../../bus/mux.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import type { GraphHost } from '../../workers/graph/host-process.js'
import { openSupervisor } from '../../workers/graph/supervisor.js'
import { ANSWER, ASK, FROM_HOST, type Frame, TO_HOST } from '../../workers/pipe.js'
import { startWorkers, within } from '../faults/worker-helper.js'
import { until } from '../helpers/until.js'

const weft = await startWorkers()
t.teardown(() => weft.stop())
const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const body = Buffer.from('id: 0\nevent: x\ndata: {}\n\n')
const frame = { flags: ASK.save, slot: 7, id: 0, count: 1, body }

/** A supervisor without a pool of hosts, and a host that records what it is sent. */
async function stage() {
  const link = await weft.open('graphs')
  const mux = openMux(link)
  const caller = openCaller(link)
  const pool = token<'pool'>('pool', 'default')
  const supervisor = openSupervisor({ config: readConfig({}), link, mux, caller, pool, worker: 'w', tracer: null })
  const fakeHost = () => {
    const sent: Partial<Frame>[] = []
    const host = {
      slots: new Set(),
      send: (frame: Partial<Frame>) => sent.push(frame),
      pause() {},
      resume() {},
      drained: async () => {},
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
  const call = supervisor.call(host, json({ thread_id: await weft.thread() }))
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
  const own = await weft.thread()
  const other = await weft.thread()
  for (const [thread_id, steps] of [
    [own, 1],
    [other, 2],
  ] as const)
    await within(20_000, (await weft.run('steps', { steps }, { thread_id })).ended)
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
  const call = supervisor.call(host, json({ thread_id: await weft.thread() }))
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
