/** A publisher keeps the latest events of a stored stream in memory, and answers readers from there. */
import t from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { readSignal } from '../../bus/events.js'
import { type Batch, openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { openRings } from '../../bus/ring.js'
import { ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { type RunId, token } from '../../schemas/ids.js'
import { chunks, control, EVENTS_STREAM } from '../../schemas/subjects.js'
import { figureOf } from '../helpers/figures.js'
import { startNats } from '../helpers/nats.js'
import { halt } from '../helpers/processes.js'
import { until } from '../helpers/until.js'

const POOL = token<'pool'>('pool', 'default')

const event = (id: number, size: number) => `id: ${id}\nevent: custom\ndata: "${'x'.repeat(size)}"\n\n`

t.test('events that a publisher remembers', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const links: Link[] = []
  t.teardown(() => Promise.all(links.map(one => one.close())))
  const link = async (role: 'edge' | 'resources' | 'graphs') => {
    const one = await openLink({ url: nats.url(role), role, log: openLog('test', 'silent') })
    links.push(one)
    return one
  }
  const [edge, resources, graphs] = [await link('edge'), await link('resources'), await link('graphs')]
  await ensureStreams(resources, readConfig({}, { max_file_store: 1024 ** 3 }))
  const [mux, edgeMux, resourceMux] = [openMux(graphs), openMux(edge), openMux(resources)]
  t.teardown(() => {
    for (const one of [mux, edgeMux, resourceMux]) one.close()
  })
  const rings = openRings()
  const follower = openFollower(edge, edgeMux)

  const publish = async (name: string, count: number, size = 10) => {
    const run: RunId = token('run', name)
    graphs.subscribe(control(POOL, run), message => {
      const signal = readSignal(message.data)
      if (signal?.do === 'replay') rings.answer(run, signal.after, message)
    })
    const publisher = openPublisher(graphs, mux, rings, { run, attempt: 1, resumable: true, budget: 1e9 })
    const send = (id: number) => publisher.send(id, 1, Buffer.from(event(id, size)))
    for (let id = 0; id < count; id++) send(id)
    await publisher.settled(10_000)
    return { run, publisher, send }
  }
  /** How it ended, and the first and the last id behind `after` that came. */
  const replay = async (run: RunId, after: number, running = true) => {
    const batches: Batch[] = []
    const outcome = await follower.replay(run, { pool: POOL, resumable: true, after, running }, batch =>
      batches.push(batch),
    )
    const ids = batches.map(({ first }) => first).filter(first => first > after)
    return [outcome, ids[0], ids.at(-1)]
  }
  /** Removes the events of the run from the stored stream. */
  const purge = (run: RunId) =>
    resourceMux.ask(`$JS.API.STREAM.PURGE.${EVENTS_STREAM}`, Buffer.from(JSON.stringify({ filter: chunks(run) })))

  await t.test('reach a reader without the stored stream while the run continues', async t => {
    const { run, publisher } = await publish('running', 100)
    await purge(run)
    t.same(await replay(run, 40), ['complete', 41, 99])
    t.same(await replay(run, 98), ['complete', 99, 99])
    t.same(await replay(run, 40, false), ['empty', undefined, undefined], 'of an ended run they are not asked for')
    t.same(
      await replay(run, 99),
      ['empty', undefined, undefined],
      'whether an id exists at all, the stored stream knows',
    )
    publisher.end()
    t.same(await replay(run, 40), ['empty', undefined, undefined], 'a later attempt may be anywhere')
  })

  await t.test('that they do not reach back to are read from the stored stream', async t => {
    const { run } = await publish('long', 60, 200_000)
    await purge(token('run', 'running'))
    t.same(await replay(run, 5), ['complete', 6, 59])
    await purge(run)
    t.same(await replay(run, 5), ['empty', undefined, undefined])
    t.same(await replay(run, 50), ['complete', 51, 59])
  })

  await t.test('are whole when an event has several parts', async t => {
    const { run } = await publish('parts', 4, 600_000)
    await purge(run)
    t.same(await replay(run, 0), ['complete', 1, 3])
  })

  await t.test('wait until everything that was sent is stored', async t => {
    const { run, send } = await publish('waiting', 10)
    await halt(nats.pid()!)
    const answers: string[] = []
    send(10)
    const respond = (bytes?: Uint8Array, options?: { headers?: { get(name: string): string } }) => {
      answers.push(options?.headers?.get('end') || `${options?.headers?.get('first')}: ${bytes?.length}`)
      return true
    }
    rings.answer(run, 8, { respond } as never)
    t.same(answers, [])
    process.kill(nats.pid()!, 'SIGCONT')
    await until(() => answers.length > 0)
    const length = event(9, 10).length
    t.same(answers, [`9: ${length}`, `10: ${length + 1}`, 'complete'])
  })

  await t.test('are not waited for when a confirmation is missing', async t => {
    const { run, send } = await publish('unconfirmed', 10)
    await halt(nats.pid()!)
    const repeats = await figureOf(graphs, 'weft_publish_repeats_total')
    send(10)
    const answers: string[] = []
    const respond = (_?: Uint8Array, options?: { headers?: { get(name: string): string } }) =>
      answers.push(options?.headers?.get('end') ?? '')
    rings.answer(run, 8, { respond } as never)
    await until(() => answers.length > 0)
    process.kill(nats.pid()!, 'SIGCONT')
    t.same(answers, ['gone'])
    t.ok((await figureOf(graphs, 'weft_publish_repeats_total')) > repeats)
  })

  await t.test('of a supervisor that hangs are read from the stored stream', async t => {
    const silent: RunId = token('run', 'silent')
    graphs.subscribe(control(POOL, silent), () => {})
    const publisher = openPublisher(graphs, mux, rings, { run: silent, attempt: 1, resumable: true, budget: 1e9 })
    for (let id = 0; id < 10; id++) publisher.send(id, 1, Buffer.from(event(id, 10)))
    await publisher.settled(10_000)
    t.same(await replay(silent, 3), ['complete', 4, 9])
  })
})
