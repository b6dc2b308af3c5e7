import t from 'tap'
import { basicServer, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

t.setTimeout(120_000)
const seed = Number(process.env.WEFT_SEED ?? Date.now() % 1_000_000)

/** Small and repeatable: the test prints the seed. */
function random(): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

t.test('20 of 20 streams dropped at random points resume exactly', async t => {
  t.comment(`seed ${seed}`)
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  const next = random()
  const COUNT = 300

  const exact = async (resumable: boolean, finished: boolean) => {
    const body = {
      assistant_id: 'chunks',
      input: { count: COUNT, delay_ms: finished ? 0 : 3 },
      stream_mode: ['custom'],
      stream_resumable: resumable,
      on_disconnect: 'continue',
    }
    const dropAt = 1 + Math.floor(next() * (COUNT - 50))
    const first = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body, stopAfter: dropAt })
    const { run_id } = JSON.parse(first.frames[0]!.data) as { run_id: string }
    const url = `${cluster.url}/runs/${run_id}/stream`
    if (finished) await readStream(url, { headers: { 'last-event-id': `${COUNT - 1}` } })
    const got: Frame[] = [...first.frames]
    // Dropped a second time in the middle.
    const middle = await readStream(url, {
      headers: { 'last-event-id': `${got.at(-1)!.id}` },
      stopAfter: 1 + Math.floor(next() * 30),
    })
    got.push(...middle.frames)
    const rest = await readStream(url, { headers: { 'last-event-id': `${got.at(-1)!.id}` } })
    got.push(...rest.frames)
    const whole = await readStream(url, { headers: { 'last-event-id': '-1' } })
    const wanted = Array.from({ length: COUNT }, (_, i) => i)
    t.same(
      got.slice(1).map(frame => (JSON.parse(frame.data) as { i: number }).i),
      wanted,
      `dropped at ${dropAt}: each chunk once, in order`,
    )
    t.same(whole.frames, got, 'a replay from the start is the same byte for byte')
  }
  for (const resumable of [true, false]) {
    for (const finished of [true, false]) {
      await Promise.all(Array.from({ length: 5 }, () => exact(resumable, finished)))
    }
  }
})

t.test('every form of cursor', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  for (const resumable of [true, false]) {
    const body = {
      assistant_id: 'chunks',
      input: { count: 20 },
      stream_mode: 'custom',
      stream_resumable: resumable,
      on_disconnect: 'continue',
    }
    const first = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body })
    const { run_id } = JSON.parse(first.frames[0]!.data) as { run_id: string }
    const join = (id?: string) =>
      readStream(`${cluster.url}/runs/${run_id}/stream`, id === undefined ? {} : { headers: { 'last-event-id': id } })
    t.same((await join('-1')).frames, first.frames)
    t.same((await join('-')).frames, first.frames)
    t.same((await join('5')).frames, first.frames.slice(6))
    t.same((await join('20')).frames, [])
    t.same((await join('99999')).frames, [], 'beyond the end')
    for (const id of ['abc', '1700000000000-5', '']) t.ok((await join(id)).ended, `${JSON.stringify(id)} is answered`)
    await t.rejects(readStream(`${cluster.url}/runs/0198f2a5-0000-7000-8000-000000000000/stream`), /HTTP 404/)
    await t.rejects(readStream(`${cluster.url}/runs/xyz/stream`), /HTTP 422/)
  }
  const big = {
    assistant_id: 'chunks',
    input: { count: 40, size: 100_000 },
    stream_mode: 'custom',
    on_disconnect: 'continue',
  }
  const whole = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body: big })
  t.equal(whole.frames.length, 41)
  const { run_id } = JSON.parse(whole.frames[0]!.data) as { run_id: string }
  await t.rejects(
    readStream(`${cluster.url}/runs/${run_id}/stream`, { headers: { 'last-event-id': '3' } }),
    /HTTP 409/,
    'what is no longer kept is said before the stream',
  )
  const late = await readStream(`${cluster.url}/runs/${run_id}/stream`, { headers: { 'last-event-id': '35' } })
  t.same(late.frames, whole.frames.slice(36))
})

t.test('a stream beyond its byte budget', async t => {
  const env = { WEFT_RESUMABLE_BYTES: '1000000', WEFT_KEEP_ENDED_MS: '2500' }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
  const runs = `${cluster.url}/threads/${thread_id}/runs`
  const body = { assistant_id: 'chunks', stream_mode: 'custom', stream_resumable: true }
  const read = (input: object, stopAfter = Infinity) =>
    readStream(`${runs}/stream`, { method: 'POST', body: { ...body, input }, stopAfter })
  const idOf = (frames: Frame[]) => (JSON.parse(frames[0]!.data) as { run_id: string }).run_id
  const join = (run: string, id: string) => readStream(`${runs}/${run}/stream`, { headers: { 'last-event-id': id } })
  const ids = (frames: Frame[]) => frames.map(({ id }) => id)

  const big = { count: 60, size: 50_000 }
  const whole = await read(big)
  t.same(ids(whole.frames), [...Array(61).keys()], 'the run streams on')
  const run = idOf(whole.frames)
  for (const id of ['-1', '3', '25']) await t.rejects(join(run, id), /HTTP 409/, `after ${id}: not all of it is kept`)
  t.same((await join(run, '55')).frames, whole.frames.slice(56), 'the last part is still in memory')
  t.same((await join(run, '60')).frames, [])

  const slowly = { ...big, delay_ms: 25 }
  const first = await read(slowly, 45)
  const rest = await join(idOf(first.frames), '44')
  t.same(
    ids([...first.frames, ...rest.frames]),
    [...Array(61).keys()],
    'a client that returns soon continues, also beyond it',
  )
  const early = await read(slowly, 5)
  const late = await join(idOf(early.frames), '4')
  t.same(ids([...early.frames, ...late.frames]), [...Array(61).keys()], 'who comes back before it was full')

  const small = await read({ count: 20, size: 0 })
  await new Promise(done => setTimeout(done, 4_500))
  await t.rejects(join(run, '55'), /HTTP 409/)
  t.same((await join(idOf(small.frames), '-1')).frames, small.frames, 'within the budget all is kept')
})
