import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { textsOf } from '../../helpers/messages.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(120_000)

interface Message {
  type: string
  id?: number | null
  event_id?: string
  seq?: number
  method?: string
  error?: string
  result?: { [name: string]: string | number }
  params?: { namespace: string[]; data: { [name: string]: unknown } }
}
interface Socket {
  on(event: 'open' | 'close' | 'error' | 'message' | 'unexpected-response', handler: (...args: never[]) => void): void
  send(data: string | Uint8Array): void
  close(): void
  terminate(): void
  pause(): void
  resume(): void
}
const { WebSocket } = createRequire(join(root, 'package.json'))('ws') as {
  WebSocket: new (url: string, options?: object) => Socket
}

/** One connection; its messages so far, and a wait for an expected message. */
async function dial(url: string, thread: string, headers: { [name: string]: string } = {}) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/threads/${thread}/stream/events`, { headers })
  const received: Message[] = []
  let wake = () => {}
  let closed: number | null = null
  socket.on('message', (data: Buffer) => {
    received.push(JSON.parse(data.toString()))
    wake()
  })
  await new Promise<void>((resolve, reject) => {
    socket.on('open', resolve)
    socket.on('error', reject)
  })
  socket.on('close', (code: number) => {
    closed = code
    wake()
  })
  let id = 0
  const receive = async (test: (message: Message) => boolean, n = 1): Promise<Message> => {
    for (let from = 0; ; ) {
      for (; from < received.length; from++) if (test(received[from]!) && --n === 0) return received[from]!
      if (closed !== null) throw new Error(`closed with ${closed}`)
      await new Promise<void>(done => (wake = done))
    }
  }
  const command = (method: string, params: object = {}) => {
    const mine = ++id
    socket.send(JSON.stringify({ id: mine, method, params }))
    return receive(message => message.id === mine)
  }
  return { socket, received, receive, command, closed: () => closed }
}
const isEnd = ({ method, params }: Message) =>
  method === 'lifecycle' && params?.namespace.length === 0 && params.data.event !== 'running'
const human = (content: string) => ({ messages: [{ type: 'human', content }] })

let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/chat' })
})
t.teardown(() => cluster?.stop())

t.test('commands and events on one connection, over several runs', async t => {
  const { socket, received, receive, command } = await dial(cluster.url, randomUUID())
  const early = await command('subscription.subscribe', { channels: ['lifecycle'] })
  t.match(early, { type: 'success', result: { subscription_id: String, replayed_events: 0 } })
  const start = () => command('run.start', { assistant_id: 'chat', input: human('hello there') })
  t.match(await start(), { type: 'success', result: { run_id: String } })
  await receive(isEnd)
  const second = await command('subscription.subscribe', { channels: ['messages'] })
  await receive(({ params }) => params?.data.event === 'message-finish')
  const at = received.indexOf(second)
  t.ok(
    received.slice(0, at).every(one => one.method !== 'messages'),
    'the answer comes before the first event',
  )
  const text = received.flatMap(one => (one.params?.data.delta as { text?: string })?.text ?? []).join('')
  t.equal(text, 'You said: hello there', 'what was before is replayed')
  const sent = received.filter(one => one.method === 'messages').length
  t.equal(second.result!.replayed_events, sent, 'it says how many events it begins with')
  t.match(await command('subscription.unsubscribe', second.result), { type: 'success', result: {} })
  t.match(await command('subscription.unsubscribe', second.result), { error: 'no_such_subscription' })
  await start()
  await receive(isEnd, 2)
  t.equal(received.filter(one => one.params?.data.event === 'message-finish').length, 1, 'and no more of what was left')
  const seqs = received.flatMap(one => (one.method === 'lifecycle' ? one.seq! : []))
  t.same(
    seqs,
    seqs.toSorted((a, b) => a - b),
  )
  t.match(await command('state.get', { namespace: [] }), { result: { values: { messages: { length: 4 } } } })
  socket.close()
})

t.test('replayed_events of a subscription, during and after a run', async t => {
  const { socket, received, receive, command } = await dial(cluster.url, randomUUID())
  const subscribe = async (params: object) =>
    Number((await command('subscription.subscribe', params)).result!.replayed_events)
  const events = () => received.filter(one => one.type === 'event').length
  await command('run.start', { assistant_id: 'chat', input: human('may I?') })
  await subscribe({ channels: ['lifecycle'] })
  await receive(isEnd)
  const before = events()
  const all = ['values', 'updates', 'messages', 'lifecycle', 'input', 'tasks', 'checkpoints']
  const replayed = await subscribe({ channels: all })
  t.ok(replayed > 5)
  await receive(isEnd, 2)
  t.equal(events() - before, replayed)
  t.equal(await subscribe({ channels: ['input'] }), 1, 'the interrupts, which are sent at the end')
  t.equal(await subscribe({ channels: ['lifecycle'], namespaces: [['nowhere']] }), 0)
  const seq = received.findLast(isEnd)!.seq!
  t.equal(await subscribe({ channels: all, since: seq }), 0)
  t.equal(await subscribe({ channels: all, since: seq - 1 }), 1)
  socket.close()
})

t.test('a connection runs one assistant', async t => {
  const client = lines[0]!.connect(cluster.url)
  const thread = randomUUID()
  const { socket, command } = await dial(cluster.url, thread)
  const start = (assistant_id: string) => command('run.start', { assistant_id, input: human('hello') })
  const { assistant_id: other } = await client.assistants.create({ graphId: 'chat' })
  t.match(await start('nobody'), { error: 'invalid_argument' })
  t.match(await start('chat'), { type: 'success' }, 'what was refused binds nothing')
  const { assistant_id } = await client.assistants.get('chat').catch(async () => {
    const { metadata } = await client.threads.get(thread)
    return { assistant_id: metadata!.assistant_id as string }
  })
  t.match(await start(assistant_id), { type: 'success' }, 'by whichever name')
  t.match(await start(other), { type: 'error', error: 'invalid_argument', message: /bound to assistant/ })
  t.equal((await client.runs.list(thread)).length, 2)
  socket.close()
  const again = await dial(cluster.url, thread)
  t.match(await again.command('run.start', { assistant_id: other, input: human('hello') }), { type: 'success' })
  again.socket.close()
})

t.test('an invalid command is answered and the connection stays open', async t => {
  const { socket, received, receive, command, closed } = await dial(cluster.url, randomUUID())
  for (const bad of ['{', 'null', '{"id":"x","method":"y"}', Buffer.from([0xff, 0xfe])]) socket.send(bad)
  await receive(one => one.id === null, 4)
  socket.send('{"id":9007199254740993,"method":"agent.getTree"}')
  await receive(one => one.id === null, 5)
  t.ok(received.every(one => one.type === 'error' && one.error === 'invalid_argument'))
  socket.send('{"id":78,"method":"run.start","params":[]}')
  t.match(await receive(one => one.id === 78), { error: 'invalid_argument', message: /^params: expected an object/ })
  t.match(await command('subscription.subscribe', { channels: [] }), { error: 'invalid_argument' })
  t.match(await command('subscription.subscribe', {}), { error: 'invalid_argument' })
  t.match(await command('subscription.reconnect'), { error: 'not_supported' })
  t.match(await command('nothing'), { error: 'unknown_command' })
  socket.send(Buffer.from(JSON.stringify({ id: 77, method: 'agent.getTree' })))
  t.match(await receive(one => one.id === 77), { error: 'no_such_run' }, 'bytes are read as UTF-8')
  t.equal(closed(), null)
  socket.close()
})

t.test('concurrent commands execute in turn, each answered under its id', async t => {
  const { socket, received, receive } = await dial(cluster.url, randomUUID())
  for (let id = 1; id <= 300; id++) socket.send(JSON.stringify({ id, method: 'agent.getTree' }))
  await receive(one => one.error === 'no_such_run', 300)
  t.same(
    received.map(one => one.id!).toSorted((a, b) => a - b),
    Array.from({ length: 300 }, (_, i) => i + 1),
  )
  socket.close()
})

t.test('origin, path and host of a connection are checked', async t => {
  const guarded = await startCluster({ app: 'test/apps/chat', env: { CORS_ALLOW_ORIGINS: 'https://chat.example' } })
  t.teardown(() => guarded.stop())
  const thread = randomUUID()
  const refused = async (code: number, path: string, headers: { [name: string]: string }) => {
    const socket = new WebSocket(`${guarded.url.replace('http', 'ws')}${path}`, { headers })
    socket.on('error', () => {})
    const status = await new Promise<number>((resolve, reject) => {
      socket.on('open', () => reject(new Error('it was opened')))
      socket.on('unexpected-response', (_: unknown, answer: { statusCode: number }) => resolve(answer.statusCode))
    })
    t.equal(status, code, `${path} ${JSON.stringify(headers)}`)
  }
  const path = `/threads/${thread}/stream/events`
  await refused(403, path, { origin: 'https://evil.example' })
  await refused(403, path, { origin: 'null' })
  await refused(403, path, { host: 'evil.example' })
  await refused(404, '/ok', {})
  await refused(404, '/threads', {})
  await refused(422, '/threads/xyz/stream/events', {})
  for (const origin of ['https://chat.example', guarded.url]) {
    const { socket } = await dial(guarded.url, thread, { origin })
    socket.close()
  }
  const plain = await fetch(`${guarded.url}${path}`)
  t.equal(plain.status, 426)
  t.equal((await fetch(`${guarded.url}/ok`)).status, 200)
})

t.test('a slow client receives every event; a client that does not read is disconnected', async t => {
  const patient = await startCluster({ app: 'test/apps/basic', env: { WEFT_STALL_MS: '1500' } })
  t.teardown(() => patient.stop())
  const thread = randomUUID()
  const slow = await dial(patient.url, thread)
  const deaf = await dial(patient.url, thread)
  for (const one of [slow, deaf]) await one.command('subscription.subscribe', { channels: ['custom', 'lifecycle'] })
  deaf.socket.pause()
  const size = 50_000
  await slow.command('run.start', { assistant_id: 'chunks', input: { count: 1_000, size } })
  const pauses = (async () => {
    for (let i = 0; i < 5; i++) {
      slow.socket.pause()
      await sleep(200)
      slow.socket.resume()
      await sleep(50)
    }
  })()
  await slow.receive(isEnd)
  await pauses
  const got = slow.received.filter(one => one.method === 'custom')
  t.same(
    got.map(one => (one.params!.data.payload as { i: number }).i),
    Array.from({ length: 1_000 }, (_, i) => i),
  )
  const gone = new Promise<void>(done => deaf.socket.on('close', () => done()))
  await sleep(3_000)
  deaf.socket.resume()
  await gone
  t.ok(deaf.received.length < slow.received.length, 'its buffer is bounded')
  slow.socket.close()
})

t.test('a stopping server asks its clients to reconnect', async t => {
  const short = await startCluster({ app: 'test/apps/chat' })
  const { command, closed, receive } = await dial(short.url, randomUUID())
  await command('subscription.subscribe', { channels: ['lifecycle'] })
  await short.stop()
  await t.rejects(
    receive(() => false),
    /closed with 1012/,
  )
  t.equal(closed(), 1012)
})

t.test('the official JavaScript SDK over a WebSocket', async t => {
  const webSocketFactory = (url: string) => new WebSocket(url) as never
  const thread = lines[0]!
    .connect(cluster.url)
    .threads.stream({ assistantId: 'chat', transport: 'websocket', webSocketFactory })
  const { messages } = thread
  await thread.run.start({ input: human('hello there') })
  t.same(await textsOf(messages), ['You said: hello there'])
  await thread.run.start({ input: human('may I?') })
  for await (const _ of await thread.subscribe('lifecycle'));
  const [asked] = thread.interrupts
  t.match(asked, { payload: { question: 'may I?' } })
  await thread.input.respond({ interrupt_id: asked!.interruptId, namespace: [], response: 'yes' })
  for await (const _ of await thread.subscribe('lifecycle'));
  t.match(await thread.state.get({ namespace: [] }), {
    values: { messages: { 3: { content: 'The answer was yes' } } },
  })
  await thread.close()
})
