/** Processes of each role that stop or die while others go on: what a rolling restart does to clients. */

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Libsql from 'libsql'
import t from 'tap'
import { type Proc, type Roles, startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

t.setTimeout(240_000)
const APP = 'test/apps/basic'
const RUNS_MS = 90_000

/** Creates runs one after the other until told to stop; what was answered 2xx must end in success. */
function load(roles: Roles) {
  const accepted: { thread_id: string; run_id: string }[] = []
  const refused: number[] = []
  let on = true
  const one = async (i: number) => {
    const url = roles.urls[i % roles.urls.length]!
    const headers = { 'content-type': 'application/json' }
    const thread = await fetch(`${url}/threads`, { method: 'POST', headers, body: '{}' })
    if (!thread.ok) return void refused.push(thread.status)
    const { thread_id } = (await thread.json()) as { thread_id: string }
    const body = JSON.stringify({ assistant_id: 'slow', input: { ms: 300 } })
    const run = await fetch(`${url}/threads/${thread_id}/runs`, { method: 'POST', headers, body })
    if (run.ok) accepted.push((await run.json()) as { thread_id: string; run_id: string })
    else refused.push(run.status)
    await Promise.all([run.bodyUsed || run.arrayBuffer(), thread.bodyUsed || thread.arrayBuffer()])
  }
  const ended = (async () => {
    for (let i = 0; on && i < 2_000; i++) {
      // A connection that a stopping edge has closed is no answer; only what was answered counts.
      await one(i).catch(() => refused.push(0))
      await sleep(30)
    }
  })()
  return {
    accepted,
    refused,
    async stop() {
      on = false
      await ended
    },
  }
}

async function settled(url: string, runs: readonly { thread_id: string; run_id: string }[]): Promise<string[]> {
  const client = lines[0]!.connect(url)
  const end = Date.now() + RUNS_MS
  for (;;) {
    const states: string[] = []
    for (const { thread_id, run_id } of runs) states.push((await client.runs.get(thread_id, run_id)).status)
    if (states.every(status => !['pending', 'running'].includes(status)) || Date.now() > end) return states
    await sleep(200)
  }
}

t.test('SIGTERM to each role in turn, under load: exit code 0, nothing lost, nothing interrupted', async t => {
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
  // The embedded store has one owner: its successor can only start when it has let go.
  await restart(roles.resources, 'resources', 'old')
  const deadline = Date.now() + 20_000
  while (accepted.length < before + 20 && Date.now() < deadline) await sleep(100)
  t.ok(accepted.length >= before + 20, 'calls are answered again')
  const [gone] = roles.edges
  roles.urls.shift()
  t.equal(await gone!.stop(), 0, 'edge ended with code 0')
  await sleep(500)
  await stop()
  const states = await settled(roles.urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  t.same(
    [...new Set(refused)].filter(status => ![0, 503].includes(status)),
    [],
    'refused only as unavailable',
  )
})

t.test('kill -9 of an edge: its clients go on at the other, every event once', async t => {
  const roles = await startRoles({ edges: 2, app: APP })
  t.teardown(() => roles.stop())
  const [first, second] = roles.urls as [string, string]
  const COUNT = 300
  const read = async (resumable: boolean) => {
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
    let text = ''
    try {
      for await (const bytes of response.body!) text += Buffer.from(bytes as Uint8Array).toString()
      t.fail('the stream was not cut')
    } catch {
      // Cut, as it should be.
    }
    // Only frames that came whole count; a client drops the rest.
    for (const frame of text.slice(0, text.lastIndexOf('\n\n') + 1).split('\n\n')) {
      const id = /^id: (\d+)/m.exec(frame)?.[1]
      if (id !== undefined) seen.push({ id: Number(id), event: '', data: '' })
    }
    const rest = await readStream(`${second}${location}`, { headers: { 'last-event-id': String(seen.at(-1)!.id) } })
    t.ok(rest.ended)
    return [...seen, ...rest.frames].map(({ id }) => id)
  }
  const readers = Array.from({ length: 40 }, (_, i) => read(i % 2 === 0))
  await sleep(1_500)
  roles.edges[0]!.kill('SIGKILL')
  const all = Array.from({ length: COUNT + 1 }, (_, i) => i)
  for (const ids of await Promise.all(readers)) t.same(ids, all)
})

t.test('a database that is locked for a while: no call hangs, nothing accepted is lost', async t => {
  const roles = await startRoles({ app: APP })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const { accepted, refused, stop } = load(roles)
  await sleep(1_500)
  const before = accepted.length
  const db = new Libsql(join(roles.nats.data, 'weft.db'))
  db.exec('BEGIN IMMEDIATE')
  await sleep(9_000)
  t.equal((await fetch(`${url}/ready`)).status, 503, 'not ready while it cannot write')
  db.exec('ROLLBACK')
  db.close()
  const deadline = Date.now() + 20_000
  while ((accepted.length < before + 20 || (await fetch(`${url}/ready`)).status !== 200) && Date.now() < deadline)
    await sleep(100)
  t.equal((await fetch(`${url}/ready`)).status, 200)
  await stop()
  t.ok(accepted.length >= before + 20, 'calls are answered again')
  t.same(
    [...new Set(refused)].filter(status => status !== 503),
    [],
    'refused only as unavailable',
  )
  const states = await settled(url, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
})
