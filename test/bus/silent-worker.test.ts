/** Calls to workers that give no sign: paused, cut off, or dead without the broker's notice. */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Caller, NotSent, openCaller } from '../../bus/call.js'
import { type Link, openLink } from '../../bus/connect.js'
import { entriesOf, KIND, messagesOf, NOTHING } from '../../bus/envelope.js'
import { openLog } from '../../bus/log.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import { startNats } from '../helpers/nats.js'

t.setTimeout(120_000)
const head = { request_id: 'r1' }
const log = openLog('test', 'silent')

interface Stage {
  caller: Caller
  edge: Link
  worker(): Promise<Link>
}

async function stage(t: Test): Promise<Stage> {
  const nats = await startNats()
  const links: Link[] = []
  const open = async (role: 'edge' | 'resources') => {
    const link = await openLink({ url: nats.url(role), role, log })
    links.push(link)
    return link
  }
  const edge = await open('edge')
  const caller = openCaller(edge)
  t.teardown(async () => {
    caller.close()
    for (const link of links) await link.close()
    await nats.stop()
  })
  return { caller, edge, worker: () => open('resources') }
}

/** A member of the queue group that takes calls and says nothing; resolves with the number of calls so far. */
async function silentMember({ worker }: Stage): Promise<() => number> {
  const link = await worker()
  let taken = 0
  link.subscribe('rpc.threads.*', () => void taken++, { queue: 'threads' })
  link.subscribe('rpc.threads.*.all', () => {})
  await link.nc.flush()
  return () => taken
}

const bytesOf = ({ body }: { body: Uint8Array }) => Buffer.from(body).toString()

t.test('a call that may be repeated is sent to another worker when its own is silent', async t => {
  const all = await stage(t)
  const taken = await silentMember(all)
  const worker = await all.worker()
  serve(worker, 'rpc.threads', 'threads', { echo: bytesHandler(bytes => ({ body: bytes })) })
  await worker.nc.flush()
  const options = { silence: 500, repeat: true, timeout: 20_000 }
  // One by one, or all of them would travel in one message.
  for (let n = 0; taken() < 3; n++)
    t.equal(bytesOf(await all.caller.call('rpc.threads.echo', head, Buffer.from(`${n}`), options)), `${n}`)
  const large = Buffer.alloc(3_000_000, 'abc')
  const before = taken()
  while (taken() === before) {
    const { body } = await all.caller.call('rpc.threads.echo', head, large, options)
    t.ok(large.equals(Buffer.from(body)), 'a body in parts, too')
  }
})

t.test('a call that must not be repeated is refused when its worker is silent', async t => {
  const all = await stage(t)
  const taken = await silentMember(all)
  await t.rejects(all.caller.call('rpc.threads.echo', head, NOTHING, { silence: 500 }), {
    code: 'unavailable',
    message: /worker of this request has been silent for 0.5 s; whether it was carried out is not known/,
  })
  t.equal(taken(), 1, 'it was sent once')
})

t.test('a call is refused when every worker is silent', async t => {
  const all = await stage(t)
  await silentMember(all)
  await t.rejects(all.caller.call('rpc.threads.echo', head, NOTHING, { silence: 500, repeat: true, timeout: 60_000 }), {
    code: 'unavailable',
    message: /can take this request/,
  })
})

t.test('only a call that nobody has received is known as not sent', async t => {
  const all = await stage(t)
  const options = { silence: 500, repeat: true, patience: 100, timeout: 20_000 }
  const call = () => all.caller.call('rpc.threads.echo', head, NOTHING, options)
  t.ok((await call().catch(error => error)) instanceof NotSent)
  const link = await all.worker()
  link.subscribe('rpc.threads.*', () => {}, { queue: 'threads' })
  await link.nc.flush()
  // Its worker is silent, and it is offered to nobody.
  const error = await call().catch(error => error)
  t.match(error, { code: 'unavailable', message: /No worker serves/ })
  t.notOk(error instanceof NotSent)
})

t.test('a slow call is reported as in progress, a quick one is not', async t => {
  const all = await stage(t)
  const worker = await all.worker()
  serve(worker, 'rpc.threads', 'threads', {
    sleep: bytesHandler(async bytes => {
      await sleep(Number(Buffer.from(bytes)))
      return { body: 'done' }
    }),
  })
  await worker.nc.flush()
  const kinds: number[] = []
  const inbox = all.edge.inbox()
  let answered = () => {}
  all.edge.subscribe(`${inbox}.*`, message => {
    for (const { kind } of entriesOf(message.data)) {
      kinds.push(kind)
      if (kind === KIND.whole) answered()
    }
  })
  const entriesFor = async (ms: number) => {
    kinds.length = 0
    const done = new Promise<void>(resolve => (answered = resolve))
    const entry = { kind: KIND.whole, id: 1, time: 10_000, head: NOTHING, body: Buffer.from(`${ms}`) }
    for (const message of messagesOf([entry]))
      all.edge.nc.publish('rpc.threads.sleep', message, { reply: `${inbox}.1` })
    await done
    return [...kinds]
  }
  t.same(await entriesFor(500), [KIND.whole])
  const slow = await entriesFor(3_500)
  t.equal(slow.pop(), KIND.whole)
  t.ok(slow.length >= 2 && slow.every(kind => kind === KIND.busy), `${slow.length} signs`)
  const answer = await all.caller.call('rpc.threads.sleep', head, Buffer.from('4000'), { silence: 2_000 })
  t.equal(bytesOf(answer), 'done', 'a call that takes twice the silence is answered')
})

t.test('the time in which the caller itself was blocked is no silence', async t => {
  const all = await stage(t)
  const link = await all.worker()
  link.subscribe('rpc.threads.*', message => {
    setTimeout(() => {
      for (const bytes of messagesOf([
        { kind: KIND.whole, id: 1, time: 0, head: Buffer.from('{"status":200}'), body: NOTHING },
      ]))
        link.nc.publish(message.reply!, bytes)
    }, 1_500)
  })
  await link.nc.flush()
  const answer = all.caller.call('rpc.threads.echo', head, NOTHING, { silence: 1_800 })
  await sleep(100)
  const until = performance.now() + 2_500
  while (performance.now() < until);
  t.equal((await answer).head.status, 200)
})

t.test('an offered call is sent to a worker that can take it', async t => {
  const all = await stage(t)
  const ready = new Set<string>()
  for (const name of ['a', 'b']) {
    const worker = await all.worker()
    serve(
      worker,
      'rpc.threads',
      'threads',
      { who: bytesHandler(() => ({ body: name })) },
      { isReady: () => ready.has(name) },
    )
    await worker.nc.flush()
  }
  const options = { offered: true, timeout: 20_000 }
  await t.rejects(all.caller.call('rpc.threads.who', head, NOTHING, options), { code: 'unavailable' })
  for (const name of ['a', 'b']) {
    ready.clear()
    ready.add(name)
    for (let n = 0; n < 5; n++) t.equal(bytesOf(await all.caller.call('rpc.threads.who', head, NOTHING, options)), name)
  }
  await t.rejects(all.caller.call('rpc.runs.who', head, NOTHING, { ...options, patience: 100 }), {
    message: /No worker serves/,
  })
})

t.test('calls in flight while the broker was away are sent again', async t => {
  const nats = await startNats()
  const links = [
    await openLink({ url: nats.url('edge'), role: 'edge', log }),
    await openLink({ url: nats.url('resources'), role: 'resources', log }),
  ]
  const caller = openCaller(links[0]!)
  t.teardown(async () => {
    caller.close()
    for (const link of links) await link.close()
    await nats.stop()
  })
  let taken = 0
  // The first answer gets lost.
  links[1]!.subscribe('rpc.threads.*', message => {
    if (++taken === 1) return
    const [entry] = entriesOf(message.data)
    const answer = { ...entry!, head: Buffer.from('{"status":200}'), body: NOTHING }
    for (const bytes of messagesOf([answer])) links[1]!.nc.publish(message.reply!, bytes)
  })
  await links[1]!.nc.flush()
  const once = { timeout: 30_000, silence: 30_000 }
  const answer = caller.call('rpc.threads.echo', head, NOTHING, { ...once, repeat: true })
  while (taken < 1) await sleep(20)
  nats.kill()
  await nats.restart()
  t.equal((await answer).head.status, 200)
  t.equal(taken, 2)
  taken = 0
  const refused = t.rejects(caller.call('rpc.threads.echo', head, NOTHING, once), {
    message: /connection to the broker/,
  })
  while (taken < 1) await sleep(20)
  nats.kill()
  await nats.restart()
  await refused
  t.equal(taken, 1, 'one that must not be repeated is refused')
})

t.test('a call in flight does not wait for a broker that stays away', async t => {
  const nats = await startNats()
  const link = await openLink({ url: nats.url('edge'), role: 'edge', log })
  const worker = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const caller = openCaller(link)
  t.teardown(async () => {
    caller.close()
    await link.close()
    await worker.close()
    await nats.stop()
  })
  let taken = 0
  worker.subscribe('rpc.threads.*', message => {
    // The first two answers get lost.
    if (++taken < 3) return
    const [entry] = entriesOf(message.data)
    const answer = { ...entry!, head: Buffer.from('{"status":200}'), body: NOTHING }
    for (const bytes of messagesOf([answer])) worker.nc.publish(message.reply!, bytes)
  })
  await worker.nc.flush()
  const call = (silence: number) =>
    caller.call('rpc.threads.echo', head, NOTHING, { timeout: 30_000, silence, repeat: true })
  const lost = t.rejects(call(500), { message: /connection to the broker was lost before the answer/ })
  while (taken < 1) await sleep(5)
  nats.kill()
  await lost
  await nats.restart()
  while (!link.connected()) await sleep(20)
  await sleep(5_000)
  const again = call(5_000)
  while (taken < 2) await sleep(5)
  nats.kill()
  await nats.restart()
  t.equal((await again).head.status, 200, 'the earlier outage does not count')
})
