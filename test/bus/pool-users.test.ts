/** Users of pools at the broker: their rights, and what a pool with them cannot do to others. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type NatsConnection } from 'nats'
import t, { type Test } from 'tap'
import { openCaller } from '../../bus/call.js'
import { openLink } from '../../bus/connect.js'
import { entriesOf, KIND, messagesOf, NOTHING } from '../../bus/envelope.js'
import { openLog } from '../../bus/log.js'
import { openReports } from '../../bus/metrics.js'
import { openMux } from '../../bus/mux.js'
import { answerPoolUsers, newIssuerSeed, openIssuer } from '../../bus/pool-users.js'
import { openPoolView } from '../../bus/queue.js'
import { poolRights } from '../../bus/rights.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import { openTunnels } from '../../bus/tunnel.js'
import { issuerSeedOf } from '../../cli/nats/config.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { pack } from '../../schemas/packed.js'
import { consumerOf, host, poolCall, type Sender } from '../../schemas/subjects.js'
import { startWorkers, within } from '../faults/worker-helper.js'
import { startNats } from '../helpers/nats.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
const HOSTILE: Sender = { app: 'hostile', pool: 'theirs' }
const HOME: Sender = { app: BUILT_IN_APP, pool: 'default' }
const json = (value: unknown) => Buffer.from(JSON.stringify(value))

t.test('a password is that of one pool of one issuer', async t => {
  const issuer = openIssuer(newIssuerSeed())
  const { user, password } = issuer.userOf(HOSTILE)
  t.same(issuer.senderOf(user, password), HOSTILE)
  t.equal(issuer.senderOf('hostile.other', password), null)
  t.equal(issuer.senderOf('hostile.theirs.more', password), null)
  t.equal(issuer.senderOf(user, ''), null)
  t.equal(openIssuer(newIssuerSeed()).senderOf(user, password), null)
  t.throws(() => openIssuer('SU-no-seed'), /WEFT_NATS_ISSUER is no seed/)
  for (const name of ['a.b', '*', '>', '', 'a b']) t.throws(() => poolRights({ app: 'mine', pool: name }), RangeError)
})

t.test('its graph worker waits until a resource worker lets it in', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const log = openLog('test', 'silent')
  const issuer = openIssuer(issuerSeedOf(nats.data))
  const { user, password } = issuer.userOf(HOME)
  const warned = new Promise<string>(resolve => (log.warn = ((line: string) => resolve(line)) as typeof log.warn))
  const opening = openLink({
    url: `nats://${user}:${password}@127.0.0.1:${nats.port}`,
    role: 'graphs',
    sender: HOME,
    log,
  })
  t.match(await Promise.race([warned, opening]), 'the broker refuses this pool')
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const mux = openMux(link)
  const users = answerPoolUsers({ link, issuer, isKnown: async () => true })
  const graphs = await opening
  t.ok(graphs.connected())
  users.close()
  mux.close()
  for (const one of [graphs, link]) await one.close()
})

t.test('with a hostile pool', async t => {
  const weft = await startWorkers()
  t.teardown(() => weft.stop())
  const address = new URL(weft.nats.url('graphs')).host
  const issuer = openIssuer(issuerSeedOf(weft.nats.data))
  const { user, password } = issuer.userOf(HOSTILE)

  /** A raw connection with the user of the hostile pool. */
  async function intruder(t: Test) {
    const nc = await connect({ servers: address, user, pass: password, inboxPrefix: `_INBOX_graphs.${HOSTILE.pool}` })
    const refused: string[] = []
    void (async () => {
      for await (const { type, data } of nc.status()) refused.push(`${type} ${data}`)
    })()
    t.teardown(() => nc.close())
    return { nc, refused }
  }
  const publish = async ({ nc }: { nc: NatsConnection }, subject: string, body: Uint8Array = json({}), reply = '') => {
    nc.publish(subject, body, reply === '' ? {} : { reply })
    await nc.flush()
  }
  const hostile = async (t: Test) => {
    const url = `nats://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${address}`
    const link = await openLink({ url, role: 'graphs', sender: HOSTILE, log: openLog('test', 'silent') })
    t.teardown(() => link.close())
    return link
  }

  await t.test('another name or password is refused', async t => {
    for (const [name, pass] of [
      [user, 'wrong'],
      ['built-in.default', password],
      ['edge', password],
      ['resources', ''],
    ])
      await t.rejects(connect({ servers: address, user: name!, pass: pass!, reconnect: false }), /Authorization/, name!)
  })

  await t.test('a pool that does not exist is refused: one of a deployment needs its revision', async t => {
    for (const sender of [
      { app: BUILT_IN_APP, pool: `rev_${randomUUID()}` },
      { app: 'hostile', pool: `rev_${randomUUID()}` },
    ]) {
      const { user, password } = issuer.userOf(sender)
      await t.rejects(connect({ servers: address, user, pass: password, reconnect: false }), /Authorization/)
    }
  })

  await t.test('it publishes and receives only what names itself', async t => {
    const { nc, refused } = await intruder(t)
    const others = [
      ...['claim', 'heartbeat', 'finish'].map(verb => poolCall(HOME, 'runs', verb)),
      poolCall({ app: BUILT_IN_APP, pool: HOSTILE.pool }, 'assistants', 'register'),
      poolCall({ app: HOSTILE.app, pool: 'default' }, 'runs', 'claim'),
      'rpc.threads.get',
      'rpc.keys.create',
      'rpc.runs.create',
      'host.default.state',
      'host.theirs.state',
      'slots.default',
      'ctl.default.r1',
      'event.graphs.announced',
      'event.keys.changed',
      'end.r1',
      'queue.theirs',
      'beat.default',
      'tunnel.edge.open.graphs.built-in',
      'tunnel.edge.open.resources.built-in',
      'tunnel.graphs.open.default',
      '_INBOX_edge.a.0',
      '_INBOX_edge.pool.default.a.0',
      '_INBOX_resources.a.0',
      '_INBOX_resources.pool.default.a.0',
      '_INBOX_graphs.default.a.0',
      '_INBOX_deployer.a.0',
      '$JS.API.CONSUMER.MSG.NEXT.RUNS.pool_default',
      '$JS.API.CONSUMER.INFO.RUNS.pool_default',
      'queue_info.pool_default',
      '$JS.API.STREAM.INFO.RUNS',
      '$JS.API.DIRECT.GET.EVENTS',
      '$JS.ACK.RUNS.pool_default.1.1.1.1.0',
      '$SYS.REQ.USER.AUTH',
    ]
    for (const subject of others) await publish({ nc }, subject)
    await until(() => refused.length >= others.length)
    t.equal(refused.length, others.length)
    const closed: string[] = []
    const subjects = [
      '>',
      '*.>',
      'rpc.>',
      'pool.>',
      'event.>',
      'event.threads.*',
      'live.*',
      'end.*',
      'ctl.>',
      'ctl.*.*',
      'ctl.default.*',
      'host.default.check',
      'host.*.check',
      'slots.default',
      'beat.*',
      'queue.*',
      'tunnel.edge.open.>',
      'tunnel.graphs.open.default',
      'tunnel.graphs.at.>',
      '_INBOX_edge.>',
      '_INBOX_graphs.>',
      '_INBOX_graphs.default.>',
      '_INBOX_resources.>',
      '$SYS.REQ.USER.AUTH',
    ]
    for (const subject of subjects) nc.subscribe(subject, { callback: error => void (error && closed.push(subject)) })
    await nc.flush()
    await until(() => closed.length >= subjects.length)
    t.same(closed.sort(), subjects.sort())
  })

  await t.test('a graph worker sees how many runs wait in its pool, or it would never have drained', async t => {
    const mux = openMux(await weft.open('graphs'))
    t.teardown(() => mux.close())
    t.equal(await openPoolView(mux, token('pool', 'default'), 'graphs').count(), 0)
  })

  await t.test(
    'JetStream answers it in the account of pools only, whatever subject it names for the answer',
    async t => {
      const resources = await weft.open('resources')
      const mux = openMux(resources)
      t.teardown(() => mux.close())
      const api = async (name: string, body: object = {}) =>
        JSON.parse((await mux.ask(`$JS.API.${name}`, json(body))).string()) as { error?: object; state?: object }
      const consumer = consumerOf(token('pool', HOSTILE.pool))
      const config = { durable_name: consumer, filter_subject: 'queue.theirs', ack_policy: 'explicit' }
      await api(`CONSUMER.DURABLE.CREATE.RUNS.${consumer}`, { stream_name: 'RUNS', config })
      await mux.ask('queue.theirs', json({ run_id: 'r', thread_id: 't' }))
      const leaked: string[] = []
      for (const subject of ['rpc.>', 'event.resources.started'])
        resources.subscribe(subject, ({ subject }) => void leaked.push(subject))
      await resources.nc.flush()
      const { nc } = await intruder(t)
      const asked: [subject: string, body: Uint8Array][] = [
        [`$JS.API.CONSUMER.MSG.NEXT.RUNS.${consumer}`, json({ batch: 1, no_wait: true })],
        // Nothing is left: the answer has no body.
        [`$JS.API.CONSUMER.MSG.NEXT.RUNS.${consumer}`, json({ batch: 1, no_wait: true })],
        [`queue_info.${consumer}`, NOTHING],
        [`$JS.ACK.RUNS.${consumer}.1.1.1.1.0`, Buffer.from('+ACK')],
        ['chunk.r1.0', json({})],
      ]
      const named = [
        '$JS.API.STREAM.PURGE.RUNS',
        '$JS.API.STREAM.DELETE.EVENTS',
        'rpc.keys.create',
        'event.resources.started',
      ]
      for (const reply of named) for (const [subject, body] of asked) await publish({ nc }, subject, body, reply)
      await sleep(500)
      t.same(leaked, [])
      for (const stream of ['RUNS', 'EVENTS']) t.equal((await api(`STREAM.INFO.${stream}`)).error, undefined, stream)
    },
  )

  await t.test('its calls are for its own application, whatever they say', async t => {
    const thread_id = await weft.thread()
    await within(20_000, (await weft.run('steps', { steps: 1 }, { thread_id })).ended)
    // Waits behind a run that blocks, so that it can be claimed.
    const blocking = await weft.run('steps', { steps: 50 }, { thread_id })
    const waiting = await weft.run('steps', { steps: 1 }, { thread_id })
    const caller = openCaller(await hostile(t))
    t.teardown(() => caller.close())
    const ask = (noun: 'runs' | 'checkpoints' | 'assistants', verb: string, body: object, head: object = {}) =>
      caller.call(poolCall(HOSTILE, noun, verb), { request_id: 't', ...head }, json(body))
    const named = [{}, { app: BUILT_IN_APP }, { deployment: { id: BUILT_IN_APP } }, { deployment: { slug: 'x' } }]
    for (const head of named)
      for (const verb of ['get', 'list'])
        t.match((await ask('checkpoints', verb, { thread_id }, head)).head, { status: 403 }, JSON.stringify(head))
    const claim = { run_id: waiting.run_id, thread_id, worker: 'w' }
    t.match((await ask('runs', 'claim', claim)).head, { status: 403 })
    const graphs = [{ graph_id: 'steps' }]
    for (const registration of [
      { ...HOME, graphs },
      { ...HOME, pool: HOSTILE.pool, graphs, auth: false },
      { app: HOSTILE.app, pool: 'default', graphs, encryption: null },
      { ...HOSTILE, revision: randomUUID(), graphs },
    ])
      t.match((await ask('assistants', 'register', registration)).head.status, /403|409/)
    t.match((await ask('assistants', 'register', { ...HOSTILE, graphs })).head, { status: 200 }, 'its own')
    t.match(await within(60_000, blocking.ended), { status: 'success' })
    t.match(await within(60_000, waiting.ended), { status: 'success' }, 'by its own pool')
  })

  await t.test('a lease without a token opens no thread, and no run that waits', async t => {
    const thread_id = await weft.thread()
    await within(20_000, (await weft.run('steps', { steps: 1 }, { thread_id })).ended)
    const waiting = await weft.run('steps', { steps: 1 }, { thread_id, body: { after_seconds: 3_600 } })
    const caller = openCaller(await hostile(t))
    t.teardown(() => caller.close())
    const save = pack({ checkpoints: [], blobs: [], writes: [] })
    const sizes = { values_size: 0, rest_size: 0, save_size: 0 }
    const end = { status: 'success', error: null, last_event_id: 0, head: null, next: [], interrupts: {}, ...sizes }
    const asked: [noun: 'runs' | 'checkpoints', verb: string, body: Uint8Array][] = [
      ['checkpoints', 'save', save],
      ['checkpoints', 'get', json({ thread_id })],
      ['checkpoints', 'list', json({ thread_id })],
      ['runs', 'stream_full', NOTHING],
      ['runs', 'finish', pack(end)],
    ]
    const named = { run_id: waiting.run_id, thread_id }
    for (const lease of [
      {},
      named,
      { ...named, attempt: 0 },
      { ...named, attempt: 0, token: null },
      { ...named, attempt: 0, token: '' },
      { ...named, attempt: 0, token: { $ne: '' } },
      { run_id: { $ne: '' }, thread_id: { $ne: '' }, attempt: { $ne: -1 }, token: { $ne: '' } },
    ])
      for (const [noun, verb, body] of asked) {
        const head = { request_id: 't', lease: lease as never, kept_until: 0 }
        const answer = await caller.call(poolCall(HOSTILE, noun, verb), head, body)
        t.equal(answer.head.status, 422, `${noun}.${verb} ${JSON.stringify(lease)}`)
      }
  })

  await t.test('bodies that it announces and never sends hold up no other pool', async t => {
    const { nc } = await intruder(t)
    const reply = '_INBOX_graphs.theirs.mine.1'
    const subject = poolCall(HOSTILE, 'checkpoints', 'save')
    for (const timeout of [1e15, 'never'])
      for (let id = 1; id <= 8; id++)
        for (const message of messagesOf([
          { kind: KIND.announce, id, time: 256 * 1024 * 1024, head: json({ request_id: 't', timeout }), body: NOTHING },
        ]))
          await publish({ nc }, subject, message, reply)
    const caller = openCaller(await weft.open('graphs'))
    t.teardown(() => caller.close())
    const head = { request_id: 't', lease: { run_id: 'r', thread_id: 't', attempt: 1, token: 'x' } }
    const large = pack({ checkpoints: [], blobs: [], writes: [] }, [Buffer.alloc(2_000_000)])
    const { head: answer } = await caller.call(poolCall(HOME, 'checkpoints', 'save'), head, large, { timeout: 10_000 })
    t.match(answer, { code: 'fenced' })
  })

  await t.test('large answers that it announces are bounded', async t => {
    const caller = openCaller(await weft.open('edge'))
    t.teardown(() => caller.close())
    const link = await hostile(t)
    const subject = host(token('pool', HOSTILE.pool), 'check')
    link.subscribe(subject, ({ reply, data }) => {
      for (const { id } of entriesOf(data))
        for (const message of messagesOf([
          { kind: KIND.announce, id, time: 256 * 1024 * 1024, head: json({ status: 200 }), body: NOTHING },
        ]))
          link.nc.publish(reply!, message)
    })
    await link.nc.flush()
    const calls = await Promise.allSettled(
      Array.from({ length: 8 }, () => caller.call(subject, { request_id: 't' }, NOTHING, { timeout: 1_500 })),
    )
    const errors = calls.map(one => (one.status === 'rejected' ? (one.reason as { code: string }).code : ''))
    t.same(errors.sort(), [...Array(6).fill('internal'), ...Array(2).fill('unavailable')])
  })

  await t.test('figures that it reports are those of its own pool', async t => {
    const mux = openMux(await weft.open('edge'))
    t.teardown(() => mux.close())
    const link = await hostile(t)
    const forged = {
      role: 'resources' as const,
      samples: [{ name: 'weft_pool_slots', value: 123_456, labels: { pool: 'default' } }],
      hosts: [{ app: 'a', pool: 'default', pid: 1, runs: 0, loop_delay_seconds: 0, held_seconds: 0, run: null }],
    }
    link.subscribe('event.metrics.asked', ({ reply }) => {
      link.nc.publish(reply!, json({ ...forged, worker: 'at the address of roles' }))
      link.nc.publish(reply!.replace('.$any.', '.theirs.'), Buffer.from('no JSON'))
      for (let n = 0; n < 200; n++)
        link.nc.publish(reply!.replace('.$any.', '.theirs.'), json({ ...forged, worker: `w${n}` }))
    })
    await link.nc.flush()
    const found = await openReports(mux).ask()
    const theirs = found.filter(({ samples }) => samples.some(({ value }) => value === 123_456))
    t.equal(theirs.length, 100)
    for (const { role, pool, samples, hosts } of theirs)
      t.match(
        { role, pool, samples, hosts },
        {
          role: 'graphs',
          pool: 'theirs',
          samples: [{ labels: { pool: 'theirs' } }],
          hosts: [{ pool: 'theirs' }],
        },
      )
    t.ok(
      found.some(({ role, pool }) => role === 'graphs' && pool !== 'theirs'),
      'others are heard',
    )
  })

  await t.test('a resource worker answers it at inboxes of its own only', async t => {
    const { nc } = await intruder(t)
    const edge = await weft.open('edge')
    const received: string[] = []
    for (const subject of ['_INBOX_edge.victim.*', '_INBOX_edge.pool.theirs.victim.*'])
      edge.subscribe(subject, ({ subject }) => void received.push(subject))
    const deployer = await weft.open('deployer')
    deployer.subscribe('_INBOX_deployer.victim.*', ({ subject }) => void received.push(subject))
    const own: number[] = []
    nc.subscribe('_INBOX_graphs.theirs.mine.*', { callback: (_, { data }) => void own.push(data.length) })
    await Promise.all([edge.nc.flush(), deployer.nc.flush(), nc.flush()])
    const call = { kind: KIND.whole, id: 1, time: 5_000, head: json({ request_id: 't' }), body: json({ runs: [] }) }
    const heartbeat = poolCall(HOSTILE, 'runs', 'heartbeat')
    for (const message of messagesOf([call])) {
      for (const inbox of ['_INBOX_edge.victim', '_INBOX_edge.pool.theirs.victim', '_INBOX_deployer.victim'])
        await publish({ nc }, heartbeat, message, `${inbox}.1`)
      await publish({ nc }, heartbeat, message, '_INBOX_graphs.theirs.mine.1')
    }
    await until(() => own.length > 0)
    t.same(received, [])
  })

  await t.test('an answer counts from the pool that was asked only', async t => {
    const edge = await weft.open('edge')
    const caller = openCaller(edge)
    const mux = openMux(edge)
    t.teardown(() => {
      caller.close()
      mux.close()
    })
    const home = await weft.open('graphs')
    const { nc } = await intruder(t)
    const asked = new Promise<string>(resolve =>
      home.subscribe(host(token('pool', 'asked'), 'check'), ({ reply }) => resolve(reply!)),
    )
    await home.nc.flush()
    let answered: unknown = null
    const call = caller.call('host.asked.check', { request_id: 't' }, NOTHING, { timeout: 1_500 }).then(
      answer => (answered = answer),
      error => (answered = error),
    )
    const reply = await asked
    const forged = { kind: KIND.whole, time: 0, head: json({ status: 200 }), body: json('forged') }
    for (let id = 0; id < 50; id++)
      for (const message of messagesOf([{ ...forged, id }])) {
        nc.publish(reply, message)
        nc.publish(reply.replace('.asked.', '.theirs.'), message)
      }
    await nc.flush()
    await call
    t.match(answered, { code: 'unavailable' }, 'nothing that it sent was taken for the answer')
  })

  await t.test('what a worker names for parts of a body is an inbox of that worker', async t => {
    const edge = await weft.open('edge')
    const caller = openCaller(edge)
    t.teardown(() => caller.close())
    const link = await hostile(t)
    const leaked: string[] = []
    const resources = await weft.open('resources')
    resources.subscribe('rpc.keys.*', ({ subject }) => void leaked.push(subject))
    link.subscribe(host(token('pool', HOSTILE.pool), 'check'), ({ reply, data }) => {
      for (const { id } of entriesOf(data))
        for (const message of messagesOf([
          { kind: KIND.go, id, time: 0, head: json({ inbox: 'rpc.keys.create' }), body: NOTHING },
        ]))
          link.nc.publish(reply!, message)
    })
    await Promise.all([resources.nc.flush(), link.nc.flush()])
    const large = Buffer.alloc(2_000_000)
    await t.rejects(caller.call(host(token('pool', HOSTILE.pool), 'check'), { request_id: 't' }, large), {
      code: 'internal',
      message: /inbox of others/,
    })
    await edge.nc.flush()
    await resources.nc.flush()
    t.same(leaked, [])
  })

  await t.test('its streams to edges are for its application; peers are addresses of streams', async t => {
    const edge = await weft.open('edge')
    const tunnels = openTunnels(edge)
    t.teardown(() => tunnels.close())
    const opened: string[] = []
    tunnels.serveEdge((stream, app, from) => {
      opened.push(`${from} of ${app}`)
      stream.end('hello')
    })
    const link = await hostile(t)
    const own = openTunnels(link)
    t.teardown(() => own.close())
    await edge.nc.flush()
    const stream = own.open('any edge')
    stream.end()
    stream.resume()
    await until(() => opened.length > 0)
    t.same(opened, ['graphs of hostile'])
    const leaked: string[] = []
    const resources = await weft.open('resources')
    for (const subject of ['rpc.keys.*', '_INBOX_resources.victim'])
      resources.subscribe(subject, ({ subject }) => void leaked.push(subject))
    await resources.nc.flush()
    const { nc } = await intruder(t)
    for (const reply of ['rpc.keys.create', '_INBOX_resources.victim'])
      await publish({ nc }, 'tunnel.edge.open.graphs.hostile', Buffer.alloc(8), reply)
    await edge.nc.flush()
    await resources.nc.flush()
    t.same(leaked, [])
    t.same(opened.length, 1)
  })

  await t.test('it is let in again after a restart of the broker', async t => {
    const link = await hostile(t)
    weft.nats.kill()
    await weft.nats.restart()
    await until(() => link.connected())
    const caller = openCaller(link)
    t.teardown(() => caller.close())
    const { head } = await caller.call(
      poolCall(HOSTILE, 'runs', 'heartbeat'),
      { request_id: 't' },
      json({ worker: 'w', runs: [] }),
      { patience: 10_000 },
    )
    t.equal(head.status, 200)
    await sleep(0)
  })
})

t.test('calls that name no graph worker are not those of one', async t => {
  const weft = await startWorkers()
  t.teardown(() => weft.stop())
  const resources = await weft.open('resources')
  const seen: unknown[] = []
  const handlers = {
    who: bytesHandler((_, { sender }) => {
      seen.push(sender)
      return {}
    }),
  }
  serve(resources, 'rpc.control', 'control-test', handlers)
  await resources.nc.flush()
  await weft.caller.call('rpc.control.who', { request_id: 't' })
  // The resource worker, which has no such call, may answer first.
  await until(() => seen.length > 0)
  t.same(seen, [null])
})
