import { connect, headers } from 'nats'
import t, { type Test } from 'tap'
import { openCaller } from '../../bus/call.js'
import { type Link, openLink } from '../../bus/connect.js'
import { KIND, messagesOf, NOTHING } from '../../bus/envelope.js'
import { followThread, onAlarm, readSignal } from '../../bus/events.js'
import { type Batch, openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import { token } from '../../schemas/ids.js'
import { readTag } from '../../schemas/protocols/v2.js'
import { event, live, threadNews } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

const text = (text: string) => Buffer.from(text)
const WAIT_MS = 10_000

async function stage(t: Test) {
  const nats = await startNats()
  const lines: string[] = []
  const log = openLog('test', 'silent')
  log.error = ((_: unknown, message: string) => void lines.push(message)) as typeof log.error
  const links: Link[] = []
  const link = async (role: 'edge' | 'resources' | 'graphs') => {
    const one = await openLink({ url: nats.url(role), role, log })
    links.push(one)
    return one
  }
  t.teardown(async () => {
    await Promise.all(links.map(one => one.close()))
    await nats.stop()
  })
  return { nats, link, lines, log }
}

t.test('an exception in a callback costs its message only', async t => {
  const { link, lines } = await stage(t)
  const [graphs, edge] = [await link('graphs'), await link('edge')]
  const received: string[] = []
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('nothing was received after the exception')), WAIT_MS)
    edge.subscribe('live.x', message => {
      received.push(message.string())
      if (message.string() === 'bad') throw new Error('unreadable')
      clearTimeout(timer)
      resolve()
    })
    void edge.nc.flush().then(() => {
      graphs.nc.publish('live.x', 'bad')
      graphs.nc.publish('live.x', 'bad')
      graphs.nc.publish('live.x', 'good')
    })
  })
  t.same(received, ['bad', 'bad', 'good'])
  t.same(lines, ['a message could not be handled'], 'one line for a flood')
})

t.test('a malformed call is refused or dropped, and the worker continues', async t => {
  const { link, nats } = await stage(t)
  const [resources, edge] = [await link('resources'), await link('edge')]
  const echo = bytesHandler(bytes => ({ body: bytes }))
  const served = serve(resources, 'rpc.threads', 'threads', { echo })
  const caller = openCaller(edge)
  await resources.nc.flush()
  const raw = await connect({
    servers: nats.url('edge').replace(/\/\/.*@/, '//'),
    user: 'edge',
    pass: passOf(nats.url('edge')),
  })
  t.teardown(() => raw.close())
  const answers: Buffer[] = []
  const inbox = `_INBOX_edge.raw${process.pid}`
  raw.subscribe(`${inbox}.*`, { callback: (_, message) => void answers.push(Buffer.from(message.data)) })
  const send = (bytes: Uint8Array, verb = 'echo') => raw.publish(`rpc.threads.${verb}`, bytes, { reply: `${inbox}.1` })
  const entry = (kind: number, head: string, time = 1_000) =>
    Buffer.concat([...messagesOf([{ kind, id: 7, time, head: text(head), body: NOTHING }])])

  send(text('xx'))
  send(Buffer.alloc(25))
  send(entry(KIND.whole, 'no json'))
  send(entry(KIND.whole, '[1]'))
  send(entry(KIND.part, '{}'))
  send(entry(KIND.announce, '{}', 2 ** 31))
  send(entry(KIND.whole, '{}'), 'constructor')
  raw.publish('rpc.threads.echo', text('xx'))
  await raw.flush()

  const { body } = await caller.call('rpc.threads.echo', { request_id: 'r' }, text('still there'), { timeout: WAIT_MS })
  t.equal(Buffer.from(body).toString(), 'still there')
  await raw.flush()
  const all = Buffer.concat(answers).toString()
  t.equal(all.match(/"status":400/g)?.length, 3, 'an unreadable head, twice, and a part that was not announced')
  t.match(all, /"status":413/)
  t.match(all, /"status":404,"code":"not_found","detail":"No such call: rpc.threads.constructor"/)
  caller.close()
  await served.quiet()
})

t.test('more parts than announced end the call, not the worker', async t => {
  const { link, nats } = await stage(t)
  const [resources, edge] = [await link('resources'), await link('edge')]
  serve(resources, 'rpc.threads', 'threads', { echo: bytesHandler(bytes => ({ body: bytes })) })
  const caller = openCaller(edge)
  t.teardown(() => caller.close())
  await resources.nc.flush()
  const raw = await connect({
    servers: nats.url('edge').replace(/\/\/.*@/, '//'),
    user: 'edge',
    pass: passOf(nats.url('edge')),
  })
  t.teardown(() => raw.close())
  const inbox = `_INBOX_edge.parts${process.pid}`
  const refused = new Promise<string>(resolve => {
    raw.subscribe(`${inbox}.*`, {
      callback(_, message) {
        const answer = Buffer.from(message.data).toString()
        const parts = /"inbox":"([^"]+)"/.exec(answer)?.[1]
        if (parts === undefined) return resolve(answer)
        const bytes = [...messagesOf([{ kind: KIND.part, id: 7, time: 0, head: NOTHING, body: Buffer.alloc(20) }])]
        raw.publish(parts, bytes[0], { reply: `${inbox}.1` })
      },
    })
  })
  const call = messagesOf([{ kind: KIND.announce, id: 7, time: 10, head: text('{}'), body: NOTHING }]).next().value!
  raw.publish('rpc.threads.echo', call as Uint8Array, { reply: `${inbox}.1` })
  t.match(await refused, /"status":400.*more bytes than were announced/)
  const { head } = await caller.call('rpc.threads.echo', { request_id: 'r' }, NOTHING, { timeout: WAIT_MS })
  t.equal(head.status, 200)
})

t.test('readers drop what they cannot read', async t => {
  const { link } = await stage(t)
  const [resources, edge, graphs] = [await link('resources'), await link('edge'), await link('graphs')]
  const mux = openMux(edge)
  t.teardown(() => mux.close())
  const run = token<'run'>('run', 'r1')
  const batches: Batch[] = []
  const news: unknown[] = []
  const alarms: number[] = []
  const follower = openFollower(edge, mux)
  follower.follow(run, {
    onBatch() {
      throw new Error('this reader fails')
    },
  })
  follower.follow(run, { onBatch: batch => void batches.push(batch) })
  followThread(edge, 't1', one => void news.push(one))
  onAlarm(resources, at => void alarms.push(at))
  await Promise.all([edge.nc.flush(), resources.nc.flush()])
  const head = headers()
  head.set('first', '3')
  head.set('count', '1')
  graphs.nc.publish(live(run), 'no headers')
  graphs.nc.publish(live(run), 'an event', { headers: head })
  for (const bad of ['no json', '1', 'null', '{}']) resources.nc.publish(threadNews(token('thread', 't1')), bad)
  resources.nc.publish(threadNews(token('thread', 't1')), '{"app":"a","removed":true}')
  resources.nc.publish(event('alarm', 'set'), 'never')
  resources.nc.publish(event('alarm', 'set'), '5')
  for (const one of [graphs, resources, edge, resources]) await one.nc.flush()
  t.same(
    batches.map(({ first }) => first),
    [3],
    'a reader that throws does not keep an event from another',
  )
  t.same(news, [{ app: 'a', removed: true }])
  t.same(alarms, [5])
})

t.test('signals and tags that are none', async t => {
  for (const bad of ['', 'x', '1', '[]', '{"do":"replay"}', '{"do":"replay","after":"1"}', '{"do":"stop"}'])
    t.equal(readSignal(text(bad)), null, bad)
  t.same(readSignal(text('{"do":"replay","after":3}')), { do: 'replay', after: 3 })
  for (const bad of ['', 'data: {}', '1', '{}', '["a"]', '[1,[]]', '["a",[1]]']) t.equal(readTag(bad), null, bad)
})

const passOf = (url: string) => new URL(url).password
