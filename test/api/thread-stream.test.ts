import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { basicServer, startCluster, startRoles, type TestServer } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

const post = async (url: string, body: unknown) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
  return (await response.json()) as { [key: string]: string }
}
const newThread = async (url: string) => (await post(`${url}/threads`, {})).thread_id!
const read = (url: string, thread: string, stopAfter: number, id?: string, query = '') =>
  readStream(`${url}/threads/${thread}/stream${query}`, {
    stopAfter,
    ...(id === undefined ? {} : { headers: { 'last-event-id': id } }),
  })
/** Resolves when the stream is open: it receives every later event. */
const opened = (url: string, thread: string, stopAfter: number, query = '') =>
  new Promise<{ reading: ReturnType<typeof readStream> }>((done, fail) => {
    const onOpen = () => done({ reading })
    const reading = readStream(`${url}/threads/${thread}/stream${query}`, { stopAfter, onOpen })
    reading.catch(fail)
  })
const named = (frames: Frame[]) => frames.map(frame => frame.event)
const chunks = (count: number, more: object = {}) => ({
  assistant_id: 'chunks',
  input: { count },
  stream_mode: 'custom',
  ...more,
})

t.setTimeout(120_000)

let cluster: TestServer
t.before(async () => {
  cluster = await basicServer()
})
t.teardown(() => cluster.stop())

t.test('all runs of a thread in one stream, and again from any of its ids', async t => {
  const { url } = cluster
  const thread = await newThread(url)
  const { reading: live } = await opened(url, thread, 32)
  const runs: string[] = []
  for (const stream_resumable of [false, true]) {
    const run = await post(`${url}/threads/${thread}/runs`, chunks(14, { stream_resumable }))
    runs.push(run.run_id!)
  }
  const { frames, headers } = await live
  t.equal(headers.get('location'), `/threads/${thread}/stream`)
  const one = ['metadata', ...Array(14).fill('custom'), 'run_done']
  t.same(named(frames), [...one, ...one])
  for (const [i, run_id] of runs.entries()) {
    t.same(JSON.parse(frames[i * 16]!.data), { run_id, attempt: 1 })
    t.same(JSON.parse(frames[i * 16 + 15]!.data), { run_id, status: 'success' })
  }
  t.same(
    frames.map(frame => frame.id),
    frames.map(frame => frame.id).toSorted((a, b) => a - b),
    'ids rise over runs',
  )
  t.equal(new Set(frames.map(frame => frame.id)).size, 32, 'and none comes twice')
  for (const start of ['-', '-1']) t.same((await read(url, thread, 32, start)).frames, frames, `from ${start}`)
  for (const at of [0, 7, 14, 15, 16, 30])
    t.same((await read(url, thread, 31 - at, `${frames[at]!.id}`)).frames, frames.slice(at + 1), `from event ${at}`)
})

t.test('a stream joins a running run; an unknown thread is 404', async t => {
  const { url } = cluster
  const thread = await newThread(url)
  await post(`${url}/threads/${thread}/runs`, { assistant_id: 'slow', input: { ms: 700 }, stream_mode: 'values' })
  await read(url, thread, 1, '-')
  const { frames } = await read(url, thread, 2)
  t.same(named(frames), ['values', 'run_done'])
  await t.rejects(read(url, '0198f2a5-0000-7000-8000-000000000000', 1), /HTTP 404/)
  await t.rejects(read(url, thread, 1, undefined, '?stream_mode=what'), /HTTP 422.*stream_mode/)
})

t.test('lifecycle and state_update, alone and together, in every form of the query', async t => {
  const { url } = cluster
  const thread = await newThread(url)
  const queries: { [query: string]: string[] } = {
    '?stream_mode=lifecycle': ['metadata', 'run_done'],
    '?stream_modes=state_update': ['state_update'],
    '?stream_mode=lifecycle&stream_mode=state_update': ['metadata', 'run_done', 'state_update'],
    '?stream_mode=["run_modes","state_update"]': ['metadata', 'values', 'values', 'run_done', 'state_update'],
  }
  const readers = await Promise.all(
    Object.entries(queries).map(([query, wanted]) => opened(url, thread, wanted.length, query)),
  )
  await post(`${url}/threads/${thread}/runs/wait`, {
    assistant_id: 'echo',
    input: { text: 'hi' },
    stream_mode: 'values',
  })
  for (const [i, [query, wanted]] of Object.entries(queries).entries()) {
    const { frames } = await readers[i]!.reading
    t.same(named(frames), wanted, query)
    if (wanted.at(-1) !== 'state_update') continue
    t.match(JSON.parse(frames.at(-1)!.data), {
      thread_id: thread,
      status: 'idle',
      values: { seen: 'hi' },
      interrupts: {},
      state_updated_at: String,
    })
  }
  const { reading: failing } = await opened(url, thread, 4, '?stream_mode=run_modes')
  await post(`${url}/threads/${thread}/runs`, { assistant_id: 'fail', input: {} })
  const { frames } = await failing
  t.same(named(frames).slice(-2), ['error', 'run_done'])
  t.match(JSON.parse(frames.at(-1)!.data), { status: 'error' })
})

t.test('the stream ends when the thread is deleted', async t => {
  const { url } = cluster
  const thread = await newThread(url)
  const reading = readStream(`${url}/threads/${thread}/stream`, { headers: { 'last-event-id': '-' } })
  await post(`${url}/threads/${thread}/runs`, { assistant_id: 'slow', input: { ms: 20_000 }, stream_mode: 'values' })
  await read(url, thread, 1, '-')
  t.equal((await fetch(`${url}/threads/${thread}`, { method: 'DELETE' })).status, 204)
  const { ended, frames } = await reading
  t.ok(ended)
  t.equal(frames[0]!.event, 'metadata')
})

t.test('heartbeats while nothing happens', async t => {
  const quick = await startCluster({ app: 'test/apps/basic', env: { WEFT_HEARTBEAT_MS: '100' } })
  t.teardown(() => quick.stop())
  const thread = await newThread(quick.url)
  const { body } = await fetch(`${quick.url}/threads/${thread}/stream`)
  let text = ''
  for await (const bytes of body!) {
    text += Buffer.from(bytes as Uint8Array).toString()
    if (text.split(': heartbeat\n').length > 3) break
  }
  t.equal(text.replaceAll(': heartbeat\n', ''), ': connected\n')
})

t.test('a run that is rolled back, and one that is dropped before it starts', async t => {
  const { url } = cluster
  const thread = await newThread(url)
  const reading = read(url, thread, 5, '-', '?stream_mode=lifecycle')
  const slow = { assistant_id: 'slow', input: { ms: 20_000 } }
  const first = await post(`${url}/threads/${thread}/runs`, slow)
  const second = await post(`${url}/threads/${thread}/runs`, slow)
  await read(url, thread, 1, '-')
  const third = await post(`${url}/threads/${thread}/runs`, { ...chunks(1), multitask_strategy: 'rollback' })
  const { frames } = await reading
  const events = frames.map(frame => ({ event: frame.event, ...JSON.parse(frame.data) }))
  t.same(
    events.filter(one => one.run_id === first.run_id).map(one => [one.event, one.status]),
    [
      ['metadata', undefined],
      ['run_done', 'interrupted'],
    ],
  )
  t.same(
    events.filter(one => one.run_id === second.run_id).map(one => [one.event, one.status]),
    [['run_done', 'interrupted']],
  )
  t.equal(events.find(one => one.event === 'metadata' && one.run_id === third.run_id)?.attempt, 1)
})

for (const { name, connect } of lines) {
  t.test(`${name}: threads.joinStream`, async t => {
    const client = connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const leave = new AbortController()
    const seen: string[] = []
    const join = client.threads.joinStream(thread_id, {
      lastEventId: '-',
      streamMode: ['run_modes', 'lifecycle', 'state_update'],
      signal: leave.signal,
    })
    const reading = (async () => {
      for await (const { event, data } of join) {
        seen.push(event as string)
        if (event === ('state_update' as never) && seen.filter(one => one === 'state_update').length === 2)
          return data as unknown
      }
    })()
    for (const text of ['one', 'two'])
      await client.runs.wait(thread_id, 'echo', { input: { text }, streamMode: 'updates' } as never)
    t.match(await reading, { thread_id, values: { seen: 'two' } })
    leave.abort()
    const one = ['metadata', 'values', 'values', 'run_done', 'state_update']
    t.same(seen, [...one, ...one])
  })
}

t.test('a stream over a thread survives the loss of the broker and of a worker', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', graphs: 1 })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const thread = await newThread(url)
  const reading = read(url, thread, 6 * 4, '-')
  const run = async () => {
    const { run_id } = await post(`${url}/threads/${thread}/runs`, chunks(2, { stream_resumable: true }))
    await fetch(`${url}/threads/${thread}/runs/${run_id}/join`).then(answer => answer.text())
    return run_id!
  }
  const runs = [await run()]
  roles.nats.kill()
  await sleep(300)
  await roles.nats.restart()
  runs.push(await run())
  roles.resources[0]!.kill('SIGKILL')
  await roles.add('resources')
  runs.push(await run(), await run(), await run(), await run())
  const { frames } = await reading
  t.same(
    frames
      .filter(frame => frame.event === 'metadata')
      .map(frame => (JSON.parse(frame.data) as { run_id: string }).run_id),
    runs,
  )
  const one = ['metadata', 'custom', 'custom', 'run_done']
  t.same(
    named(frames),
    runs.flatMap(() => one),
  )
  t.same((await read(url, thread, 24, '-')).frames, frames)
})
