import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { type Frame, readStream } from '../helpers/sse.js'

const seed = Number(process.env.WEFT_SEED ?? Date.now() % 1_000_000)

/** Small and repeatable: the seed is printed. */
function random(): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

t.test('20 of 20 streams dropped at random points resume exactly', async t => {
  t.comment(`seed ${seed}`)
  const cluster = await startCluster({ app: 'test/apps/basic' })
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
    // Dropped a second time on the way.
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
  const cluster = await startCluster({ app: 'test/apps/basic' })
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
