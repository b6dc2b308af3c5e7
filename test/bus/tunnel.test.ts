/** Byte streams over the broker: whole, in order, at the speed of the reader, or cut. */
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { type Link, openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openTunnels, relay } from '../../bus/tunnel.js'
import { token } from '../../schemas/ids.js'
import { tunnelAddress, tunnelToPool } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

const POOL = token('pool', 'one')

t.setTimeout(60_000)

async function stage(t: Test) {
  const nats = await startNats()
  const links: Link[] = []
  const link = async (role: Role) => {
    const sender = role === 'graphs' ? { sender: { app: 'app', pool: POOL } } : {}
    const one = await openLink({ url: nats.url(role), role, ...sender, log: openLog('test', 'silent') })
    links.push(one)
    return one
  }
  const [edge, graphs] = [openTunnels(await link('edge')), openTunnels(await link('graphs'))]
  t.teardown(async () => {
    edge.close()
    graphs.close()
    await Promise.all(links.map(one => one.close()))
    await nats.stop()
  })
  /** Both ends of a new stream from the edge to the pool. */
  const accepted: Duplex[] = []
  let onAccept = () => {}
  graphs.servePool(POOL, stream => {
    accepted.push(stream)
    onAccept()
  })
  const open = async () => {
    const came = new Promise<void>(done => (onAccept = done))
    const near = edge.open(POOL)
    await came
    return [near, accepted.at(-1)!] as const
  }
  await Promise.all(links.map(one => one.nc.flush()))
  return { nats, links, edge, graphs, open }
}

/** An iterator would destroy the stream, which may still be written. */
const textOf = (stream: Duplex): Promise<string> =>
  new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    stream.on('data', part => parts.push(part))
    stream.on('end', () => resolve(Buffer.concat(parts).toString()))
    stream.on('error', reject)
  })
/** Resolves to the error that ends the stream. */
const endOf = (stream: Duplex) =>
  new Promise<{ code?: string; message: string } | null>(done => {
    let error: Error | null = null
    stream.on('error', found => (error = found))
    stream.on('close', () => done(error))
  })

t.test('large bodies pass both ways at once, and each direction ends on its own', async t => {
  const { open } = await stage(t)
  const [near, far] = await open()
  relay(
    far,
    Duplex.from(async function* (source: AsyncIterable<Buffer>) {
      for await (const part of source) yield part
    } as never),
  )
  const large = Buffer.alloc(5_000_000, '0123456789abc')
  near.end(large)
  t.ok((await textOf(near)) === large.toString())
  const [asking, answering] = await open()
  asking.end('question')
  t.equal(await textOf(answering), 'question')
  answering.end('answer')
  t.equal(await textOf(asking), 'answer')
})

t.test('a reader that does not read holds the writer back', async t => {
  const { open, links } = await stage(t)
  const [near, far] = await open()
  const chunk = Buffer.alloc(64 * 1024)
  let written = 0
  const write = (): void =>
    void near.write(chunk, error => {
      if (error) return
      written++
      write()
    })
  write()
  for (let i = 0; i < 20; i++) await Promise.all(links.map(link => link.nc.flush()))
  t.ok(written > 0 && written < 12, `${written} chunks of 64 KB`)
  const before = written
  far.resume()
  while (written < before + 20) await new Promise(done => setTimeout(done, 5))
  near.destroy()
  far.on('error', () => {})
})

t.test('a stream that one end cuts is cut at the other, never ended', async t => {
  const { open } = await stage(t)
  const [near, far] = await open()
  far.resume().on('end', () => t.fail('it ended'))
  const over = endOf(far)
  near.on('error', () => {})
  near.write('half')
  near.destroy()
  t.match(await over, { code: 'unavailable' })
})

t.test('what was sent whole is read whole, even when the sender has ended meanwhile', async t => {
  const { edge, links } = await stage(t)
  const [pool, { nc, subscribe }] = [token('pool', 'whole'), links[1]!]
  const address = tunnelAddress('graphs', 'peer.1', pool)
  const frame = (kind: number, number = 0, text = '') =>
    Buffer.concat([Buffer.from([kind, 0, 0, 0, number, 0, 0, 0]), Buffer.from(text)])
  let opener = ''
  const say = (bytes: Buffer) => nc.publish(opener, bytes, { reply: address })
  subscribe(tunnelToPool(pool), ({ reply }) => {
    opener = reply!
    say(frame(1))
  })
  subscribe(address, ({ data }) => {
    if (data[0] !== 3) return
    // It has received the end: it sends all it has, ends, and a credit of the reader finds no stream any more.
    say(frame(2, 0, 'answer'))
    say(frame(3, 1))
    say(frame(4))
  })
  await nc.flush()
  const asking = edge.open(pool)
  asking.end('question')
  t.equal(await textOf(asking), 'answer')
})

t.test('without a process that serves the pool there is no stream; an edge is found by any pool', async t => {
  const { edge, graphs, links } = await stage(t)
  t.match(await endOf(edge.open(token('pool', 'nobody'))), { code: 'unavailable', message: /Nobody serves/ })
  const openers: string[] = []
  edge.serveEdge((stream, app, from) => {
    openers.push(`${from} of ${app}`)
    stream.end('from the edge')
  })
  await links[0]!.nc.flush()
  const back = graphs.open('any edge')
  back.end()
  t.equal(await textOf(back), 'from the edge')
  t.same(openers, ['graphs of app'])
})

t.test('a missing frame and a lost broker cut streams', async t => {
  const { open, nats, links } = await stage(t)
  const [near, far] = await open()
  far.resume()
  const { publish } = links[0]!.nc
  let dropped = 0
  links[0]!.nc.publish = (...frame) => (dropped++ === 0 ? undefined : publish.apply(links[0]!.nc, frame))
  const [first, second] = [endOf(near), endOf(far)]
  near.write('lost')
  near.write('comes')
  t.match(await second, { code: 'unavailable' })
  t.match(await first, { code: 'unavailable' })
  const [other, end] = await open()
  const cut = [endOf(other), endOf(end)]
  const again = Promise.all(links.map(link => new Promise<void>(done => link.onReconnect(done))))
  nats.kill()
  await nats.restart()
  await again
  for (const error of await Promise.all(cut)) t.match(error, { code: 'unavailable' })
})

t.test('frames that are none cost their sender only', async t => {
  const { open, links } = await stage(t)
  const [near, far] = await open()
  const said = once(far, 'data')
  for (const frame of ['', 'x', '\0\0\0\0\0\0\0\0', '\x07\0\0\0\0\0\0\0nonsense']) {
    links[0]!.nc.publish('tunnel.graphs.open.one', Buffer.from(frame))
    links[0]!.nc.publish('tunnel.graphs.open.one', Buffer.from(frame), { reply: '_INBOX_edge.x' })
    links[0]!.nc.publish('tunnel.graphs.at.nobody.1', Buffer.from(frame), { reply: 'tunnel.edge.at.nobody.1' })
  }
  near.write('still here')
  t.equal(`${(await said)[0]}`, 'still here')
  far.on('error', () => {})
  near.destroy()
})

t.test('an application has a part of the streams of an edge', async t => {
  const { nats, links, edge, graphs } = await stage(t)
  const accepted = { app: 0, other: 0 }
  edge.serveEdge((_, app) => void accepted[app as keyof typeof accepted]++)
  const sender = { app: 'other', pool: token<'pool'>('pool', 'two') }
  const link = await openLink({ url: nats.url('graphs'), role: 'graphs', sender, log: openLog('test', 'silent') })
  const other = openTunnels(link)
  t.teardown(async () => {
    other.close()
    await link.close()
  })
  await Promise.all(links.map(one => one.nc.flush()))
  const streams = Array.from({ length: 1_001 }, () => graphs.open('any edge'))
  const refused = await Promise.race(streams.map(endOf))
  t.match(refused, { code: 'unavailable' })
  const mine = other.open('any edge')
  await once(mine.resume().end('x'), 'finish')
  t.same(accepted, { app: 1_000, other: 1 })
})
