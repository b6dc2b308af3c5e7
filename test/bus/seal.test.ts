/** Answers to graph workers: only the worker that called can read them, and only a resource worker can write them. */
import { connect } from 'nats'
import t, { type Test } from 'tap'
import { openCaller } from '../../bus/call.js'
import { type Link, openLink, type Role } from '../../bus/connect.js'
import { entriesOf, KIND, messagesOf, NOTHING } from '../../bus/envelope.js'
import { openLog } from '../../bus/log.js'
import { openSeal, seal } from '../../bus/seal.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import { fail } from '../../schemas/errors.js'
import { poolCall, poolCalls } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

const SENDER = { app: 'app', pool: 'mine' }
const of = (verb: string) => poolCall(SENDER, 'runs', verb)
const SECRET = 'confidential'
const LARGE = Buffer.from(SECRET.repeat(250_000))

async function stage(t: Test) {
  const nats = await startNats()
  const links: Link[] = []
  const link = async (role: Role) => {
    const sender = role === 'graphs' ? { sender: SENDER } : {}
    const one = await openLink({ url: nats.url(role), role, ...sender, log: openLog('test', 'silent') })
    links.push(one)
    return one
  }
  t.teardown(async () => {
    await Promise.all(links.map(one => one.close()))
    await nats.stop()
  })
  const resources = await link('resources')
  const received: string[] = []
  const handlers = {
    claim: bytesHandler(() => ({ body: SECRET })),
    finish: bytesHandler(bytes => {
      received.push(Buffer.from(bytes).toString())
      return { body: LARGE }
    }),
    release: bytesHandler(() => {
      throw fail('conflict', SECRET)
    }),
  }
  for (const prefix of ['rpc.runs', poolCalls('runs')]) serve(resources, prefix, 'runs', handlers)
  await resources.nc.flush()
  /** A raw connection with the password of the role. */
  const intruder = async (role: Role) => {
    const url = new URL(nats.url(role))
    const nc = await connect({ servers: url.host, user: role, pass: decodeURIComponent(url.password) })
    t.teardown(() => nc.close())
    return nc
  }
  return { link, intruder, received }
}

const head = { request_id: 'r' }

t.test('a graph worker cannot read the answers to another one', async t => {
  const { link, intruder } = await stage(t)
  const nc = await intruder('graphs')
  const overheard: Buffer[] = []
  nc.subscribe('_INBOX_graphs.>', { callback: (_, { data }) => void overheard.push(Buffer.from(data)) })
  await nc.flush()
  const caller = openCaller(await link('graphs'))
  t.teardown(() => caller.close())
  t.equal(`${Buffer.from((await caller.call(of('claim'), head)).body)}`, SECRET)
  t.same((await caller.call(of('finish'), head, LARGE)).body, LARGE, 'in parts, both ways')
  t.equal((await caller.call(of('release'), head)).head.detail, SECRET)
  await nc.flush()
  t.ok(overheard.length > 3, `${overheard.length} messages`)
  t.notOk(
    overheard.some(data => data.includes(SECRET)),
    'none of them can be read',
  )
})

t.test('answers to edges travel as they are: their role is one trust domain', async t => {
  const { link, intruder } = await stage(t)
  const nc = await intruder('edge')
  const overheard: Buffer[] = []
  nc.subscribe('_INBOX_edge.>', { callback: (_, { data }) => void overheard.push(Buffer.from(data)) })
  await nc.flush()
  const caller = openCaller(await link('edge'))
  t.teardown(() => caller.close())
  await caller.call('rpc.runs.claim', head)
  await nc.flush()
  t.ok(overheard.some(data => data.includes(SECRET)))
})

t.test('no other client can answer for a resource worker or add to the body of a call', async t => {
  const { link, intruder, received } = await stage(t)
  const nc = await intruder('graphs')
  // The broker of weft start refuses such answers of graph workers; another broker may not.
  const forger = await intruder('resources')
  const sealed = Buffer.from(openSeal('graphs')!.key)
  const inboxes = new Set<string>()
  // Each message to another worker is followed by forged ones: whole answers, and parts of the body being sent.
  nc.subscribe('_INBOX_graphs.>', {
    callback: (_, { subject }) => {
      if (inboxes.has(subject)) return
      inboxes.add(subject)
      for (let id = 0; id < 4; id++) {
        const entry = {
          kind: KIND.whole,
          id,
          time: 0,
          head: Buffer.from('{"status":200}'),
          body: Buffer.from('forged'),
        }
        for (const message of messagesOf([entry])) {
          forger.publish(subject, message)
          forger.publish(subject, seal(sealed, message))
        }
      }
    },
  })
  // Its own questions tell it the inbox of the resource worker.
  const own = `_INBOX_graphs.mine.intruder`
  const ownSeal = openSeal('graphs')!
  const to = new Promise<string>(resolve =>
    nc.subscribe(`${own}.*`, {
      callback: (_, { data }) => {
        const [go] = entriesOf(ownSeal.open(data))
        resolve((JSON.parse(Buffer.from(go!.head).toString()) as { inbox: string }).inbox)
      },
    }),
  )
  for (const message of messagesOf([
    { kind: KIND.announce, id: 1, time: 2_000_000, head: Buffer.from('{}'), body: NOTHING },
  ]))
    nc.publish(of('finish'), ownSeal.attach(message), { reply: `${own}.1` })
  const receiver = await to

  const caller = openCaller(await link('graphs'))
  t.teardown(() => caller.close())
  const part = { kind: KIND.part, time: 0, body: Buffer.from('forged') }
  const inject = setInterval(() => {
    for (const subject of inboxes)
      for (let id = 0; id < 40; id++)
        for (const head of [NOTHING, sealed])
          for (const message of messagesOf([{ ...part, id, head }]))
            nc.publish(receiver, message, { reply: `${subject.slice(0, subject.lastIndexOf('.'))}.0` })
  }, 1)
  t.teardown(() => clearInterval(inject))
  for (let n = 0; n < 10; n++) {
    t.equal(`${Buffer.from((await caller.call(of('claim'), head)).body)}`, SECRET)
    t.same((await caller.call(of('finish'), head, LARGE)).body, LARGE)
  }
  t.equal(received.length, 10)
  t.ok(received.every(body => body === `${LARGE}`))
})

t.test('a key of another size is no call', async t => {
  const { link, intruder } = await stage(t)
  const nc = await intruder('graphs')
  const answers: unknown[] = []
  nc.subscribe('_INBOX_graphs.mine.x.*', { callback: (_, { data }) => void answers.push(data) })
  const call = { kind: KIND.whole, id: 1, time: 1_000, head: Buffer.from('{}'), body: NOTHING }
  for (const size of [0, 1, 31, 33, 1_000]) {
    const key = { kind: KIND.key, id: 0, time: 0, head: NOTHING, body: Buffer.alloc(size) }
    for (const message of messagesOf([key, call])) nc.publish(of('claim'), message, { reply: '_INBOX_graphs.mine.x.1' })
  }
  await nc.flush()
  const caller = openCaller(await link('graphs'))
  t.teardown(() => caller.close())
  t.equal((await caller.call(of('claim'), head)).head.status, 200, 'the worker continues')
  t.same(answers, [])
})
