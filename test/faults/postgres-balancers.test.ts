/** A rolling restart of every role behind HAProxy and nginx: no request fails, and streams are resumed. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../cli/ports.js'
import { type Balancer, hasBalancer, startHaproxy, startNginx } from '../helpers/balancers.js'
import { type Proc, type Roles, startRoles } from '../helpers/cluster.js'
import { startPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { finalStatuses } from './load.js'

t.setTimeout(300_000)

const missing = (['haproxy', 'nginx'] as const).filter(name => !hasBalancer(name))
const skip =
  missing.length === 0 ? false : `needs ${missing.join(' and ')} (apt-get install haproxy nginx-light on Debian)`

/** A balancer needs 2 s, and 1 s until its next check, to leave an edge. */
const DRAIN_MS = 4_000
const CALLERS = 2
const STREAMS = 2
/** Longer than the restarts of both edges. */
const EVENTS = 600
const MOST_CUTS = 20
const headers = { 'content-type': 'application/json' }

/** Callers that send one request after the other, each kind that an application sends. */
function callers({ url }: Balancer) {
  const failed: string[] = []
  const runs: { thread_id: string; run_id: string }[] = []
  let answered = 0
  let on = true
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${answer.status} ${text.slice(0, 200)}`)
    answered++
    return JSON.parse(text) as T
  }
  const input = { assistant_id: 'slow', input: { ms: 100 } }
  const one = async () => {
    const { thread_id } = await call<{ thread_id: string }>('POST', '/threads', {})
    runs.push(await call('POST', `/threads/${thread_id}/runs`, input))
    await call('GET', `/threads/${thread_id}`)
    await call('POST', '/runs/wait', input)
  }
  const loop = async () => {
    while (on) {
      await one().catch(error => failed.push(`${error.message} ${error.cause ?? ''}`))
      await sleep(50)
    }
  }
  const ended = Promise.all(Array.from({ length: CALLERS }, loop))
  return {
    failed,
    runs,
    answered: () => answered,
    async stop() {
      on = false
      await ended
    },
  }
}

/** The ids of a stream of EVENTS chunks, resumed through the balancer each time that it is cut. */
async function streamThrough({ url }: Balancer, onBegun: () => void): Promise<{ ids: number[]; cuts: number }> {
  const body = JSON.stringify({
    assistant_id: 'chunks',
    input: { count: EVENTS, delay_ms: 40 },
    stream_mode: 'custom',
    stream_resumable: true,
    on_disconnect: 'continue',
  })
  let answer = await fetch(`${url}/runs/stream`, { method: 'POST', headers, body })
  const location = answer.headers.get('location')!
  onBegun()
  const ids: number[] = []
  for (let cuts = 0; ; cuts++) {
    let text = ''
    try {
      for await (const bytes of answer.body!) text += Buffer.from(bytes as Uint8Array).toString()
    } catch {
      // Cut by an edge that stops.
    }
    for (const frame of text.slice(0, text.lastIndexOf('\n\n') + 1).split('\n\n')) {
      const id = /^id: (\d+)/m.exec(frame)?.[1]
      if (id !== undefined) ids.push(Number(id))
    }
    if (ids.at(-1) === EVENTS) return { ids, cuts }
    if (cuts === MOST_CUTS) throw new Error(`the stream was cut ${cuts} times, after ${ids.length} events`)
    answer = await fetch(url + location, { headers: { 'last-event-id': `${ids.at(-1) ?? -1}` } })
    if (answer.status !== 200) throw new Error(`the stream is not resumed: ${answer.status} ${await answer.text()}`)
  }
}

/** A new process of each, then the end of the old one. */
async function replace(t: Test, roles: Roles, role: 'resources' | 'graphs'): Promise<void> {
  for (const old of roles[role]) {
    await roles.add(role)
    t.equal(await old.stop(), 0, `${role} ended with code 0`)
  }
}

t.test('a rolling restart of every role behind real balancers', { skip }, async t => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const env = { DATABASE_URI: await server.url(), WEFT_EDGE_DRAIN_MS: `${DRAIN_MS}` }
  const roles = await startRoles({ edges: 0, resources: 2, graphs: 2, app: 'test/apps/basic', env })
  t.teardown(() => roles.stop())
  const ports: [number, number] = [await freePort(), await freePort()]
  const startEdge = (port: number) => roles.add('edge', ['--port', `${port}`])
  const edges: Proc[] = []
  for (const port of ports) edges.push(await startEdge(port))
  const folder = mkdtempSync(join(tmpdir(), 'balancer-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const balancers = [await startHaproxy(folder, ports), await startNginx(folder, ports)]
  t.teardown(() => Promise.all(balancers.map(({ stop }) => stop())))

  const load = balancers.map(callers)
  await until(() => load.every(({ answered }) => answered() > 20))
  await replace(t, roles, 'resources')
  await replace(t, roles, 'graphs')
  const begun: Promise<void>[] = []
  const streams = balancers.flatMap(balancer =>
    Array.from({ length: STREAMS }, () => {
      let onBegun = () => {}
      begun.push(new Promise(done => (onBegun = done)))
      return streamThrough(balancer, onBegun)
    }),
  )
  await Promise.race([Promise.all(begun), Promise.all(streams)])
  for (const [n, port] of ports.entries()) {
    t.equal(await edges[n]!.stop(), 0, 'the edge ended with code 0')
    await startEdge(port)
    for (const { edges } of balancers) await until(async () => (await edges()) === 2)
  }
  const read = await Promise.all(streams)
  for (const { stop } of load) await stop()

  for (const [n, { name }] of balancers.entries()) {
    const { failed, runs, answered } = load[n]!
    t.comment(`${name}: ${answered()} requests answered`)
    t.same(failed, [], `${name}: no request failed`)
    t.same([...new Set(await finalStatuses(balancers[n]!.url, runs))], ['success'], `${name}: every run`)
  }
  const all = Array.from({ length: EVENTS + 1 }, (_, i) => i)
  for (const { ids } of read) t.same(ids, all, 'every event once')
  t.ok(
    read.some(({ cuts }) => cuts > 0),
    'streams were cut',
  )
})
