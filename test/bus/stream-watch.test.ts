import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { type Mux, openMux } from '../../bus/mux.js'
import { wake } from '../../bus/queue.js'
import { watchStreams } from '../../bus/stream-watch.js'
import { ensureStreams } from '../../bus/streams.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { PROBE_CHUNK, PROBE_QUEUE } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'

t.setTimeout(180_000)
const log = openLog('test', 'silent')
const config = readConfig({}, { max_file_store: 1024 ** 3 })
const pool = token<'pool'>('pool', 'default')
const WAIT_MS = 30_000

const until = async (what: string, done: () => boolean | Promise<boolean>) => {
  const end = performance.now() + WAIT_MS
  while (!(await done())) {
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`)
    await sleep(20)
  }
}

/** `wrap`: what the watch sends, as the test wants it. */
function watch(t: Test, link: Link, wrap: (mux: Mux) => Mux = mux => mux) {
  const mux = wrap(openMux(link))
  let created = 0
  const streams = watchStreams({ link, mux, config, onCreated: () => created++ })
  t.teardown(() => {
    streams.stop()
    mux.close()
  })
  let n = 0
  const publishes = () => wake(link, mux, pool, { run_id: 'r', thread_id: 't' }, `id-${process.pid}-${n++}`)
  return { streams, publishes, created: () => created }
}

t.test('streams that a lost disk took along are created again', async t => {
  const nats = await startNats()
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log })
  t.teardown(async () => {
    await link.close()
    await nats.stop()
  })
  await ensureStreams(link, config)
  const { streams, publishes, created } = watch(t, link)
  await streams.check() // The one that the watch began with: it may already have removed messages.
  for (const subject of [PROBE_QUEUE, PROBE_CHUNK]) await link.nc.jetstream().publish(subject)
  await streams.check()
  t.equal(streams.problem(), null)
  t.equal(created(), 0)
  const { streams: stored } = await link.nc.jetstreamManager()
  for (const name of ['RUNS', 'EVENTS'])
    t.equal((await stored.info(name)).state.messages, 0, 'a check leaves nothing behind, nor what another one left')

  nats.kill()
  await until('disconnect', () => !link.connected())
  t.match(streams.problem(), /cannot be reached/)
  rmSync(join(nats.data, 'nats'), { recursive: true })
  await nats.restart()
  await until('repair', () => link.connected() && streams.problem() === null && created() > 0)
  t.equal(created(), 2)
  t.equal(await publishes(), true)

  await (await link.nc.jetstreamManager()).streams.delete('RUNS')
  t.equal(await publishes(), false)
  await streams.check()
  t.equal(await publishes(), true, 'a failed publish leads to the repair, without a reconnect')
})

/** A watch of streams that store a wake-up and an event; `kept` says whether they still do. */
async function watchStored(t: Test, wrap?: (mux: Mux) => Mux) {
  const nats = await startNats()
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log })
  t.teardown(async () => {
    await link.close()
    await nats.stop()
  })
  await ensureStreams(link, config)
  const watched = watch(t, link, wrap)
  await watched.streams.check()
  t.equal(await watched.publishes(), true)
  const graphs = await openLink({ url: nats.url('graphs'), role: 'graphs', log })
  const graphsMux = openMux(graphs)
  await graphsMux.ask('chunk.r.0', Buffer.from('x'))
  graphsMux.close()
  await graphs.close()
  const manager = await link.nc.jetstreamManager()
  const kept = async () => {
    const [runs, events] = await Promise.all(['RUNS', 'EVENTS'].map(name => manager.streams.info(name)))
    return [runs!.state.messages, events!.state.messages]
  }
  t.same(await kept(), [1, 1])
  return { ...watched, nats, link, manager, kept }
}

t.test('a pause of the broker costs no stream', async t => {
  const { streams, nats, created, kept } = await watchStored(t)
  const pid = nats.pid()!
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  for (let n = 0; n < 4; n++) {
    await streams.check()
    t.match(streams.problem(), /does not answer|cannot be reached/)
  }
  process.kill(pid, 'SIGCONT')
  await until('the end of the pause', () => streams.problem() === null)
  t.equal(created(), 0)
  t.same(await kept(), [1, 1])
})

t.test('single checks that fail do not add up over an outage', async t => {
  /** Answers of the broker that get lost. */
  let losses = 0
  const { streams, nats, link, created, kept } = await watchStored(t, mux => ({
    ...mux,
    ask(subject, ...rest) {
      if (subject !== PROBE_CHUNK || losses === 0) return mux.ask(subject, ...rest)
      losses--
      return Promise.reject(new Error('no answer'))
    },
  }))
  const pid = nats.pid()!
  const lose = async () => {
    losses = 1
    await streams.check()
    t.match(streams.problem(), /does not store events/)
  }
  await lose()
  await streams.check()
  t.equal(streams.problem(), null, 'a success')
  await lose()
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  await streams.check()
  process.kill(pid, 'SIGCONT')
  await lose()
  t.equal(created(), 0, 'a pause')
  losses = 1
  await link.nc.reconnect()
  await until('the check after the reconnect', () => losses === 0)
  await until('repair', () => streams.problem() === null)
  t.equal(created(), 0, 'a reconnect')
  t.same(await kept(), [1, 1])
  await lose()
  losses = 1
  await streams.check()
  t.equal(created(), 1, 'two in a row do')
  t.same(await kept(), [1, 0])
})

t.test('a stream that is full is kept', async t => {
  const { streams, publishes, created, kept, manager } = await watchStored(t)
  const { config } = await manager.streams.info('RUNS')
  await manager.streams.update('RUNS', { ...config, max_msgs: 1 })
  t.equal(await publishes(), false)
  for (let n = 0; n < 3; n++) await streams.check()
  t.equal(streams.problem(), null, 'workers empty it')
  t.equal(created(), 0)
  t.same(await kept(), [1, 1])
})

/** A NATS server whose folder is a file system of 24 MB; `root` is that folder as this process sees it. */
async function smallDisk(t: Test) {
  const folder = t.testdir({ disk: {} })
  const disk = join(folder, 'disk')
  const file = join(folder, 'nats.conf')
  writeFileSync(file, `listen: "127.0.0.1:-1"\njetstream { store_dir: "${disk}/js", max_file_store: 4GB }\n`)
  const script = 'mount -t tmpfs -o size=24m tmpfs "$1" && exec "$2" -c "$3"'
  const words = ['-rm', 'sh', '-c', script, 'sh', disk, await findNatsServer(), file]
  const child = spawn('unshare', words, { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close')
  })
  let output = ''
  child.stderr.on('data', part => (output += part))
  await until('the server', () => {
    if (child.exitCode !== null) throw new Error(output)
    return output.includes('Server is ready')
  })
  const port = Number(/client connections on 127\.0\.0\.1:(\d+)/.exec(output)![1])
  return { port, root: `/proc/${child.pid}/root${disk}` }
}

const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0

t.test('a disk that was full', { skip: mayMount ? false : 'needs user namespaces' }, async t => {
  const { port, root } = await smallDisk(t)
  const link = await openLink({ url: `nats://127.0.0.1:${port}`, role: 'resources', log })
  t.teardown(() => link.close())
  await ensureStreams(link, config)
  const { streams, publishes } = watch(t, link)
  await streams.check()
  t.equal(await publishes(), true)
  mkdirSync(join(root, 'other'))
  try {
    writeFileSync(join(root, 'other', 'fill'), Buffer.alloc(32 * 1024 * 1024))
  } catch (error) {
    t.match(error, { code: 'ENOSPC' })
  }
  await until('a full stream', async () => !(await publishes()))
  await streams.check()
  t.match(streams.problem(), /does not store/)
  rmSync(join(root, 'other'), { recursive: true })
  await until('repair', () => streams.problem() === null)
  t.equal(await publishes(), true, 'wake-ups are stored again, without a restart of the server')
  const mux = openMux(link)
  t.teardown(() => mux.close())
  t.match((await mux.ask('chunk.r.0', Buffer.from('x'))).json(), { stream: 'EVENTS' }, 'and events')
})

t.test('a server without JetStream is refused with a sentence', async t => {
  const folder = t.testdir()
  const file = join(folder, 'nats.conf')
  writeFileSync(file, `listen: "127.0.0.1:-1"\n`)
  const child = spawn(await findNatsServer(), ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  let output = ''
  child.stderr.on('data', part => (output += part))
  await until('the server', () => output.includes('Server is ready'))
  const port = /client connections on 127\.0\.0\.1:(\d+)/.exec(output)![1]
  const link = await openLink({ url: `nats://127.0.0.1:${port}`, role: 'resources', log })
  t.teardown(() => link.close())
  await t.rejects(ensureStreams(link, config), {
    message: `the NATS server at 127.0.0.1:${port} has JetStream switched off: start it with -js`,
  })
})
