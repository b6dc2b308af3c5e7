/** Joining a run: its stream in fewer modes, and its result after any end (docs/spec/streams.md#join). */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { basicServer, type Cluster } from '../helpers/cluster.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
let cluster: Pick<Cluster, 'url' | 'stop'>
t.before(async () => {
  cluster = await basicServer()
})
t.teardown(() => cluster.stop())

const absent = '0198f2a5-0000-7000-8000-000000000000'
const runIn = (frames: Frame[]) => (JSON.parse(frames[0]!.data) as { run_id: string }).run_id
const baseOf = (event: string) => event.split('|', 1)[0]!
const getJson = async (path: string) => {
  const response = await fetch(`${cluster.url}${path}`)
  return { status: response.status, body: (await response.json()) as never }
}

t.test('a join asks for fewer modes, in every encoding of a list', async t => {
  const client = lines[0]!.connect(cluster.url)
  for (const stream_resumable of [true, false]) {
    const { thread_id } = await client.threads.create()
    const runs = `${cluster.url}/threads/${thread_id}/runs`
    const body = {
      assistant_id: 'outer',
      input: { messages: [{ role: 'user', content: 'hi' }] },
      stream_mode: ['values', 'updates', 'messages', 'messages-tuple', 'custom', 'tasks'],
      stream_subgraphs: true,
      stream_resumable,
    }
    const whole = await readStream(`${runs}/stream`, { method: 'POST', body })
    const names = new Set(whole.frames.map(({ event }) => baseOf(event)))
    for (const name of ['values', 'updates', 'messages', 'messages/partial', 'tasks']) t.ok(names.has(name), name)
    t.ok(
      whole.frames.some(({ event }) => event.includes('|')),
      'names of subgraphs, too',
    )
    const url = `${runs}/${runIn(whole.frames)}/stream`
    const join = async (query: string) => (await readStream(url + query, { headers: { 'last-event-id': '-1' } })).frames
    const only = (...wanted: string[]) =>
      whole.frames.filter(({ event }) => {
        const name = baseOf(event)
        return name === 'metadata' || wanted.includes(name.startsWith('messages/') ? 'messages/' : name)
      })
    const two = only('values', 'updates')
    t.ok(two.length > 3 && two.length < whole.frames.length)
    for (const query of [
      '?stream_mode=values&stream_mode=updates',
      `?stream_mode=${encodeURIComponent('["values","updates"]')}`,
      `?stream_mode=${encodeURIComponent('["values"]')}&stream_mode=updates`,
      '?stream_mode=values,updates',
      `?stream_mode=${encodeURIComponent('values, updates')}`,
    ])
      t.same(await join(query), two, query)
    t.same(await join('?stream_mode=values'), only('values'))
    t.same(await join('?stream_mode=messages-tuple'), only('messages'), 'tuples')
    t.same(await join('?stream_mode=messages'), only('messages/'), 'accumulated')
    t.same(await join('?stream_mode=debug'), only(), 'what the run does not produce')
    for (const query of ['', '?stream_mode=', '?stream_mode=%5B%5D']) t.same(await join(query), whole.frames, query)
    const events: unknown[] = []
    for (const { connect } of linesOnStore) {
      const client = connect(cluster.url)
      const options = { lastEventId: '-1', streamMode: ['values', 'updates'] as never }
      const parts: { event: string; id?: string }[] = []
      for await (const part of client.runs.joinStream(thread_id, runIn(whole.frames), options))
        parts.push(part as never)
      t.same(
        parts.map(({ event, id }) => [event, Number(id)]),
        two.map(({ event, id }) => [event, id]),
      )
      events.push(parts.length)
    }
    t.equal(new Set(events).size, 1)
  }
})

t.test('a join without Last-Event-ID', async t => {
  const client = lines[0]!.connect(cluster.url)
  const input = { count: 60, delay_ms: 20, size: 0 }

  for (const stream_resumable of [true, false]) {
    const { thread_id } = await client.threads.create()
    const runs = `${cluster.url}/threads/${thread_id}/runs`
    const body = { assistant_id: 'chunks', input, stream_mode: 'custom', stream_resumable }
    let received = 0
    const onFrame = () => void received++
    const created = readStream(`${runs}/stream`, { method: 'POST', body, onFrame })
    await until(() => received > 3)
    const { run_id } = (await client.runs.list(thread_id))[0]!
    const live = await readStream(`${runs}/${run_id}/stream`)
    const { frames } = await created
    t.ok(live.ended && live.frames.length > 0 && live.frames.length < frames.length, 'live: what comes from now on')
    t.same(live.frames, frames.slice(-live.frames.length))
    t.same((await readStream(`${runs}/${run_id}/stream`)).frames, [], 'an ended one that was streamed: nothing')

    const made = await client.runs.create(thread_id, 'chunks', { input, streamMode: 'custom', streamResumable: true })
    await until(async () => (await client.runs.get(thread_id, made.run_id)).status === 'running')
    await sleep(200)
    const all = await readStream(`${runs}/${made.run_id}/stream`)
    t.same(
      all.frames.map(({ id }) => id),
      [...Array(61).keys()],
      'one that was not streamed: all of it',
    )
    t.same((await readStream(`${runs}/${made.run_id}/stream`)).frames, all.frames, 'also when it has ended')
  }
})

t.test('a pending run can be joined and streams from its start', async t => {
  for (const { name, connect } of linesOnStore) {
    const client = connect(cluster.url)
    const { thread_id } = await client.threads.create()
    await client.runs.create(thread_id, 'slow', { input: { ms: 600 } })
    const next = await client.runs.create(thread_id, 'echo', { input: { text: 'next' } })
    const stream = readStream(`${cluster.url}/threads/${thread_id}/runs/${next.run_id}/stream`)
    const joined = client.runs.join(thread_id, next.run_id)
    t.equal((await client.runs.get(thread_id, next.run_id)).status, 'pending')
    const { frames, ended } = await stream
    t.ok(ended && frames[0]!.event === 'metadata' && frames[0]!.id === 0, name)
    t.match(await joined, { seen: 'next' })
  }
})

t.test('joining ended runs', async t => {
  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const { thread_id } = await client.threads.create()
      const make = async (graph: string, payload: object) => {
        const { run_id } = await client.runs.create(thread_id, graph, payload)
        await client.runs.join(thread_id, run_id)
        return run_id
      }
      const partsOf = async (run_id: string) => {
        const parts = []
        for await (const part of client.runs.joinStream(thread_id, run_id)) parts.push(part)
        return parts
      }
      const good = await make('echo', { input: { text: 'a' } })
      t.match(await client.runs.join(thread_id, good), { seen: 'a' })
      t.match((await partsOf(good)).at(-1), { event: 'values', data: { seen: 'a' } })

      const bad = await make('fail', { input: {} })
      t.match(await client.runs.join(thread_id, bad), { __error__: { error: 'TooBadError', message: 'too bad' } })
      t.match((await partsOf(bad)).at(-1), { event: 'error', data: { error: 'TooBadError' } })

      const asks = await make('ask', { input: { question: 'sure?' } })
      t.match(await client.runs.join(thread_id, asks), { __interrupt__: [{ value: { question: 'sure?' } }] })
      t.match(await client.runs.join(thread_id, good), { question: 'sure?' }, 'the thread as it is now')

      const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
      // A run that is running may not have taken its input yet: its second event has the values with it.
      let received = 0
      const onFrame = () => void received++
      const stream = readStream(`${cluster.url}/threads/${thread_id}/runs/${slow.run_id}/stream`, { onFrame })
      await until(() => received > 1)
      const waits = client.runs.join(thread_id, slow.run_id)
      await client.runs.cancel(thread_id, slow.run_id, true)
      t.match(await waits, { ms: 30_000 }, 'the last known values of a cancelled one')
      t.ok((await stream).ended)
      t.notOk((await partsOf(slow.run_id)).some(part => (part.event as string) === 'error'))

      const rolled = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
      const never = client.runs.join(thread_id, rolled.run_id)
      await client.runs.cancel(thread_id, rolled.run_id, true, 'rollback')
      t.same(await never, {}, 'one that was removed has no state')
      await t.rejects(client.runs.join(thread_id, rolled.run_id), /HTTP 404/)
    })
  }
})

t.test('runs without a thread', async t => {
  const input = { count: 10, size: 0 }
  const made = await readStream(`${cluster.url}/runs/stream`, {
    method: 'POST',
    body: { assistant_id: 'chunks', input, stream_mode: 'custom' },
  })
  const run_id = runIn(made.frames)
  t.match(await getJson(`/runs/${run_id}/join`), { status: 200, body: { done: 10 } })
  const again = await readStream(`${cluster.url}/runs/${run_id}/stream`, { headers: { 'last-event-id': '-1' } })
  t.same(again.frames, made.frames)
  t.equal(again.headers.get('location'), `/runs/${run_id}/stream`)
  t.equal(again.headers.get('content-location'), `/runs/${run_id}`)
  for (const { connect } of linesOnStore) {
    const parts = []
    for await (const part of connect(cluster.url).runs.joinStream(null, run_id, { lastEventId: '-1' })) parts.push(part)
    t.equal(parts.length, made.frames.length)
  }
  const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
  for (const path of [
    `/threads/${thread_id}/runs/${run_id}`,
    `/threads/${thread_id}/runs/${absent}`,
    `/runs/${absent}`,
  ])
    for (const join of ['stream', 'join']) t.match(await getJson(`${path}/${join}`), { status: 404 }, `${path}/${join}`)
})
