/** Bodies in parts: how many pass at once, and what happens to those that wait. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openLink } from '../../bus/connect.js'
import { openLane } from '../../bus/lane.js'
import { openLog } from '../../bus/log.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import { StoreOutage } from '../../schemas/errors.js'
import { startNats } from '../helpers/nats.js'

t.test('bodies pass in order, as many as there is room for', async t => {
  const lane = openLane(10, 100)
  const started: string[] = []
  const refused: string[] = []
  const enter = (name: string, size: number) =>
    lane.enter(
      size,
      () => started.push(name),
      () => refused.push(name),
    )
  const a = enter('a', 4)
  const b = enter('b', 5)
  const c = enter('c', 5)
  const d = enter('d', 1)
  t.same(started, ['a', 'b'], 'd does not overtake c')
  a()
  a()
  t.same(started, ['a', 'b', 'c'])
  const large = enter('large', 50)
  b()
  c()
  t.same(started, ['a', 'b', 'c', 'd'])
  const left = enter('left', 1)
  left()
  d()
  t.same(
    started,
    ['a', 'b', 'c', 'd', 'large'],
    'one that is larger than the lane passes alone; one that left does not',
  )
  t.throws(() => enter('too many', 51), { code: 'too_many' })
  large()
  const any = enter('any', 1_000)
  t.equal(started.at(-1), 'any')
  any()
  const passes = enter('passes', 8)
  const waits = enter('waits', 60)
  enter('waits, too', 3)
  lane.refuse(new Error('no use'))
  t.same(refused, ['waits', 'waits, too'])
  waits()
  passes()
  t.equal(started.at(-1), 'passes', 'what was refused does not start')
  enter('fits again', 1_000)
  t.equal(started.at(-1), 'fits again')
})

t.test('large calls are handled one after the other; small ones pass, and none counts as silent', async t => {
  const nats = await startNats()
  const log = openLog('test', 'silent')
  const worker = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const edge = await openLink({ url: nats.url('edge'), role: 'edge', log })
  const caller = openCaller(edge)
  t.teardown(async () => {
    caller.close()
    await edge.close()
    await worker.close()
    await nats.stop()
  })
  let large = 0
  let most = 0
  const MB = 1024 * 1024
  serve(
    worker,
    'rpc.threads',
    'threads',
    {
      work: bytesHandler(async bytes => {
        if (bytes.length < MB) return { body: `${large}` }
        most = Math.max(most, ++large)
        await sleep(800)
        large--
        return { body: `${bytes.length}` }
      }),
    },
    { lane: openLane(4 * MB, 64 * MB) },
  )
  await worker.nc.flush()
  const head = { request_id: 'r' }
  const options = { silence: 2_000, timeout: 60_000 }
  const all = Array.from({ length: 8 }, () =>
    caller
      .call('rpc.threads.work', head, Buffer.alloc(3 * MB), options)
      .then(({ body }) => Buffer.from(body).toString()),
  )
  let ended = false
  const sizes = Promise.all(all).finally(() => (ended = true))
  let small = 0
  while (!ended) {
    await caller.call('rpc.threads.work', head, Buffer.from('x'), options)
    small++
  }
  t.same([...new Set(await sizes)], [`${3 * MB}`], 'those that waited for six seconds, too')
  t.equal(most, 1)
  t.ok(small > 100, `${small} small calls meanwhile`)
  await t.rejects(caller.call('rpc.threads.work', head, Buffer.alloc(60 * MB), { ...options, timeout: 500 }), {
    code: 'unavailable',
  })
  const after = await caller.call('rpc.threads.work', head, Buffer.alloc(2 * MB), options)
  t.equal(Buffer.from(after.body).toString(), `${2 * MB}`, 'a call whose caller gave up leaves the lane')
})

t.test('when the database fails a large call, those that wait behind it are refused with it', async t => {
  const nats = await startNats()
  const log = openLog('test', 'silent')
  const worker = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const edge = await openLink({ url: nats.url('edge'), role: 'edge', log })
  const caller = openCaller(edge)
  t.teardown(async () => {
    caller.close()
    await edge.close()
    await worker.close()
    await nats.stop()
  })
  const MB = 1024 * 1024
  let entered = 0
  let begun = 0
  let isLocked = true
  const all: Promise<string>[] = []
  const served = openLane(4 * MB, 64 * MB)
  serve(
    worker,
    'rpc.threads',
    'threads',
    {
      work: bytesHandler(async () => {
        begun++
        if (!isLocked) return {}
        // The others have entered the lane.
        while (entered < all.length) await new Promise(setImmediate)
        throw new StoreOutage('locked')
      }),
    },
    {
      lane: {
        ...served,
        enter(...one) {
          entered++
          return served.enter(...one)
        },
      },
    },
  )
  await worker.nc.flush()
  const call = () => caller.call('rpc.threads.work', { request_id: 'r' }, Buffer.alloc(3 * MB), { timeout: 60_000 })
  for (let i = 0; i < 8; i++) all.push(call().then(({ head }) => `${head.status}`))
  t.same([...new Set(await Promise.all(all))], ['503'])
  t.equal(begun, 1)
  isLocked = false
  t.equal((await call()).head.status, 200)
})
