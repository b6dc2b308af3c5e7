/** Processes of each role stop or are killed while others continue: the effect of a rolling restart on clients. */

import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { type Frame, type Reading, readStream } from '../helpers/sse.js'
import { finalStatuses, load } from './load.js'

t.setTimeout(240_000)
const APP = 'test/apps/basic'

t.test('SIGTERM to each role in turn under load: exit code 0, no run lost or interrupted', async t => {
  const roles = await startRoles({ edges: 2, graphs: 2, app: APP })
  t.teardown(() => roles.stop())
  const { accepted, refused, stop } = load(roles)
  await sleep(1_000)
  const restart = async (procs: Proc[], role: 'graphs' | 'resources', first: 'new' | 'old') => {
    const old = procs.shift()!
    if (first === 'new') procs.push(await roles.add(role))
    t.equal(await old.stop(), 0, `${role} ended with code 0`)
    if (first === 'old') procs.push(await roles.add(role))
    await sleep(500)
  }
  await restart(roles.graphs, 'graphs', 'new')
  await restart(roles.graphs, 'graphs', 'new')
  const before = accepted.length
  // One process owns the embedded store: its successor starts after it has ended.
  await restart(roles.resources, 'resources', 'old')
  const deadline = Date.now() + 20_000
  while (accepted.length < before + 20 && Date.now() < deadline) await sleep(100)
  t.ok(accepted.length >= before + 20, 'calls are answered again')
  const [edge] = roles.edges
  roles.urls.shift()
  t.equal(await edge!.stop(), 0, 'edge ended with code 0')
  await sleep(500)
  await stop()
  const states = await finalStatuses(roles.urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  t.same(
    [...new Set(refused)].filter(status => ![0, 503].includes(status)),
    [],
    'refused only as unavailable',
  )
})

t.test('kill -9 of an edge: its clients resume at the other edge, every event once', async t => {
  const roles = await startRoles({ edges: 2, app: APP })
  t.teardown(() => roles.stop())
  const [first, second] = roles.urls as [string, string]
  const COUNT = 300
  /** Acts like a client of the API: 503 means "again after a second". */
  const resume = async (url: string, from: string): Promise<Reading> => {
    const reading = readStream(url, { headers: { 'last-event-id': from } })
    const isBusy = await reading.then(
      () => false,
      error => /^HTTP 503/.test((error as Error).message),
    )
    if (!isBusy) return reading
    await sleep(1_000)
    return resume(url, from)
  }
  const read = async (resumable: boolean, onBegun: () => void) => {
    const seen: Frame[] = []
    const body = {
      assistant_id: 'chunks',
      input: { count: COUNT, delay_ms: 10 },
      stream_mode: 'custom',
      stream_resumable: resumable,
      on_disconnect: 'continue',
    }
    const response = await fetch(`${first}/runs/stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const location = response.headers.get('location')!
    onBegun()
    let text = ''
    try {
      for await (const bytes of response.body!) text += Buffer.from(bytes as Uint8Array).toString()
      t.fail('the stream was not cut')
    } catch {
      // The kill has cut the stream.
    }
    // A client drops an incomplete frame; it may have received none, and then resumes from the start.
    for (const frame of text.slice(0, text.lastIndexOf('\n\n') + 1).split('\n\n')) {
      const id = /^id: (\d+)/m.exec(frame)?.[1]
      if (id !== undefined) seen.push({ id: Number(id), event: '', data: '' })
    }
    const rest = await resume(`${second}${location}`, String(seen.at(-1)?.id ?? -1))
    t.ok(rest.ended)
    return [...seen, ...rest.frames].map(({ id }) => id)
  }
  const begun: Promise<void>[] = []
  const readers = Array.from({ length: 40 }, (_, i) => {
    let onBegun = () => {}
    begun.push(new Promise(resolve => (onBegun = resolve)))
    return read(i % 2 === 0, onBegun)
  })
  await Promise.race([Promise.all(begun), Promise.all(readers)])
  await sleep(1_000)
  roles.edges[0]!.kill('SIGKILL')
  const all = Array.from({ length: COUNT + 1 }, (_, i) => i)
  for (const ids of await Promise.all(readers)) t.same(ids, all)
})
