/**
 * An edge on a real broker with fake workers that a test controls: runs are rows in a map, the test publishes their
 * events, and replays are answered from the published events.
 */
import { hash } from 'node:crypto'
import { headers as natsHeaders } from 'nats'
import type { Test } from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { type Lifecycle, lifecycle } from '../../bus/lifecycle.js'
import { openLog } from '../../bus/log.js'
import { bytesHandler, type Handler, serve } from '../../bus/serve.js'
import { openEdge } from '../../edge/edge.js'
import type { AppConfig } from '../../schemas/application.js'
import type { KeyLimits, KeyRecord, Scope } from '../../schemas/auth/keys.js'
import type { CallHead, Peek } from '../../schemas/calls.js'
import { type Config, readConfig } from '../../schemas/config.js'
import { type RunId, token } from '../../schemas/ids.js'
import type { RunStatus, RunView } from '../../schemas/runs.js'
import { control, end, live } from '../../schemas/subjects.js'
import { startNats, type TestNats } from '../helpers/nats.js'

const POOL = token<'pool'>('pool', 'default')

export const THREAD = '0198aaaa-0000-7000-8000-000000000001'

/** A run of the fake workers. */
export interface FakeRun {
  head: RunView
  /** Events by id, as frames. */
  kept: Map<number, Buffer>
  /** If set, a replay reports that the events are no longer stored. */
  gone: boolean
  result: string
}

export interface Stage {
  nats: TestNats
  port: number
  edge: Link
  worker: Link
  graph: Link
  life: Lifecycle
  runs: Map<string, FakeRun>
  /** Received calls, by verb. */
  calls: { verb: string; head: CallHead; body: Buffer }[]
  /** Requested replays. */
  replays: number[]
  /** Members of the next runs. */
  template: Partial<RunView>
  /** Replaces the handler of a verb. */
  handlers: { [verb: string]: Handler }
  /** By id: `keyOf` makes them. */
  keys: Map<string, KeyRecord>
  /** Resolves with the run of the next create. */
  created(): Promise<FakeRun>
  add(head?: Partial<RunView>): FakeRun
  publish(run: FakeRun, first: number, count: number, bytes?: Buffer, keep?: boolean): void
  finish(run: FakeRun, status?: RunStatus, extra?: { result?: string; error?: object }): void
  close(): Promise<void>
}

/** The frame of an event; `pad` makes it larger. */
export const frame = (id: number, pad = 0, name = 'values'): Buffer =>
  Buffer.from(`id: ${id}\nevent: ${name}\ndata: {"n":${id},"pad":"${'x'.repeat(pad)}"}\n\n`)
export const frames = (first: number, count: number, pad = 0): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => frame(first + i, pad)))

let lastRun = 0
const runId = () => `0198bbbb-0000-7000-8000-${(++lastRun).toString().padStart(12, '0')}`

export async function openStage(given: Partial<Config> = {}, application: AppConfig | null = null): Promise<Stage> {
  const nats = await startNats()
  const log = openLog('test', process.env.TEST_LOG ?? 'silent')
  const link = (role: 'edge' | 'resources' | 'graphs') => openLink({ url: nats.url(role), role, log })
  const [edge, worker, graph] = await Promise.all([link('edge'), link('resources'), link('graphs')])
  const life = lifecycle(log, 3_000)
  const config = readConfig({}, { port: 0, heartbeat_ms: 5_000, ...given })
  const waiting: ((run: FakeRun) => void)[] = []

  const stage: Stage = {
    nats,
    port: 0,
    edge,
    worker,
    graph,
    life,
    runs: new Map(),
    calls: [],
    replays: [],
    template: {},
    handlers: {},
    keys: new Map(),
    created: () => new Promise(done => waiting.push(done)),
    add(head = {}) {
      const run: FakeRun = {
        head: {
          run_id: runId(),
          thread_id: THREAD,
          stateless: false,
          pool: POOL,
          created_at: 0,
          updated_at: 0,
          resumable: false,
          on_disconnect: 'continue',
          status: 'running',
          attempt: 1,
          last_event_id: null,
          resumable_until_id: null,
          joined_at: null,
          from: 'live',
          stream_mode: ['values'],
          ...stage.template,
          ...head,
        },
        kept: new Map(),
        gone: false,
        result: '{"done":true}',
      }
      stage.runs.set(run.head.run_id, run)
      graph.subscribe(control(POOL, idOf(run)), message => {
        const { after } = JSON.parse(message.string()) as { after: number }
        stage.replays.push(after)
        for (const [id, bytes] of run.gone ? [] : [...run.kept].sort(([a], [b]) => a - b)) {
          if (id > after) message.respond(bytes, { headers: batchHeaders(id, 1) })
        }
        const last = natsHeaders()
        last.set('end', run.gone ? 'gone' : 'complete')
        message.respond(new Uint8Array(0), { headers: last })
      })
      return run
    },
    publish(run, first, count, bytes = frames(first, count), keep = true) {
      if (keep) {
        const texts = bytes.toString('latin1').split('\n\n')
        for (let i = 0; i < count; i++) run.kept.set(first + i, Buffer.from(`${texts[i]}\n\n`, 'latin1'))
      }
      graph.nc.publish(live(idOf(run)), bytes, { headers: batchHeaders(first, count) })
    },
    finish(run, status = 'success', { result, error } = {}) {
      run.head.status = status
      run.result = result ?? run.result
      run.head.last_event_id ??= Math.max(-1, ...run.kept.keys())
      const headers = natsHeaders()
      headers.set('status', status)
      headers.set('last_event_id', String(run.head.last_event_id))
      if (result !== undefined) headers.set('result', '1')
      if (error !== undefined) headers.set('error', Buffer.from(JSON.stringify(error)).toString('base64'))
      worker.nc.publish(end(idOf(run)), Buffer.from(result ?? ''), { headers })
    },
    async close() {
      await life.stop()
      await Promise.all([edge, worker, graph].map(one => one.close()))
      await nats.stop()
    },
  }

  const runs: { [verb: string]: Handler } = {
    create: bytesHandler((_, { head }) => {
      const { run_id, mode } = head.run!
      const thread_id = head.params?.thread_id
      const stateless = thread_id === undefined
      const run = stage.runs.get(run_id) ?? stage.add({ run_id, stateless, thread_id: thread_id ?? THREAD })
      for (const done of waiting.splice(0)) done(run)
      return { body: JSON.stringify({ run_id, mode }), head: { run: run.head } }
    }),
    join: bytesHandler((_, { head }) => {
      const run = stage.runs.get(head.params!.run_id!)
      if (run === undefined) return { head: { status: 404, detail: 'Run not found' } }
      return { body: run.head.status === 'success' ? run.result : '', head: { run: run.head } }
    }),
    peek: bytesHandler(bytes => {
      const { run_ids } = JSON.parse(Buffer.from(bytes).toString()) as { run_ids: string[] }
      const found: Peek[] = run_ids.flatMap(id => stage.runs.get(id)?.head ?? [])
      return { body: JSON.stringify({ runs: found }) }
    }),
    result: bytesHandler((_, { head }) => ({ body: stage.runs.get(head.params!.run_id!)!.result })),
    disconnect: bytesHandler(() => ({ head: { status: 204 } })),
  }
  const noun = (name: string, table: { [verb: string]: Handler }, verbs: string[]) => {
    const handlers: { [verb: string]: Handler } = {}
    for (const verb of verbs) {
      handlers[verb] = bytesHandler((bytes, context) => {
        // The edge itself asks for it at its start.
        if (verb !== 'info') stage.calls.push({ verb: `${name}.${verb}`, head: context.head, body: Buffer.from(bytes) })
        const handler = stage.handlers[`${name}.${verb}`] ?? table[verb] ?? echo
        return (handler.handle as (value: unknown, context: unknown) => ReturnType<typeof handler.handle>)(
          bytes,
          context,
        )
      })
    }
    serve(worker, `rpc.${name}`, name, handlers)
  }
  noun('runs', runs, ['create', 'join', 'peek', 'result', 'disconnect', 'get'])
  noun('threads', {}, ['create', 'get', 'state'])
  noun('assistants', {}, ['create', 'get', 'search'])
  noun('system', {}, ['check', 'ready', 'info'])
  noun('deployments', {}, ['create'])
  noun('control', { key: bytesHandler(() => ({ body: JSON.stringify({ sha256: hash('sha256', 'generated') }) })) }, [
    'key',
  ])
  noun('keys', { get: bytesHandler(bytes => ({ body: JSON.stringify(stage.keys.get(idIn(bytes)) ?? null) })) }, ['get'])
  await worker.nc.flush()
  try {
    stage.port = (await openEdge({ config, application, link: edge, life })).port
  } catch (error) {
    await stage.close()
    throw error
  }
  return stage
}

const idIn = (bytes: Uint8Array) => (JSON.parse(Buffer.from(bytes).toString()) as { id: string }).id

/** The text of a new key that the workers know. */
export function keyOf({ keys }: Stage, n: number, scopes: Scope[], limits: Partial<KeyLimits> = {}): string {
  const id = n.toString(16).padStart(16, '0')
  const text = `weft_${id}_${'A'.repeat(43)}`
  const all = { requests_per_second: null, running_runs: null, open_streams: null, ...limits }
  keys.set(id, { id, name: `key ${n}`, scopes, limits: all, expires_at: null, sha256: hash('sha256', text) })
  return text
}

const echo = bytesHandler((bytes, { head }) => ({ body: JSON.stringify({ head, bytes: bytes.length }) }))
export const idOf = (run: FakeRun): RunId => token<'run'>('run', run.head.run_id)

function batchHeaders(first: number, count: number) {
  const headers = natsHeaders()
  headers.set('first', String(first))
  headers.set('count', String(count))
  headers.set('attempt', '1')
  return headers
}

/** The ids of the events in a text, in order. */
export const idsIn = (text: string): number[] => [...text.matchAll(/(?:^|\n)id: (\d+)\n/g)].map(([, id]) => Number(id))

/** Polls a condition that no message reports. */
export async function eventually(t: Test, fact: () => boolean, what: string): Promise<void> {
  for (let i = 0; i < 400; i++) {
    if (fact()) return
    await new Promise(done => setTimeout(done, 10))
  }
  t.fail(`never: ${what}`)
}
