/**
 * A resource worker and a graph worker in this process, with real NATS, store and hosts; runs are created as the edge
 * creates them. The steps of a graph are read from its own log (test/apps/faults), not from the server.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Caller, openCaller } from '../../bus/call.js'
import { type Link, openLink, type Role } from '../../bus/connect.js'
import { entriesOf, KIND } from '../../bus/envelope.js'
import { after, type Batch, type Ending, type Follower, follows, openFollower } from '../../bus/follow.js'
import { type Lifecycle, lifecycle } from '../../bus/lifecycle.js'
import { openLog } from '../../bus/log.js'
import { type Mux, openMux } from '../../bus/mux.js'
import { issuerSeedOf } from '../../cli/nats/config.js'
import type { Heartbeat } from '../../schemas/calls.js'
import { type Config, readConfig, servedBy } from '../../schemas/config.js'
import { BUILT_IN_APP, type RunId, token } from '../../schemas/ids.js'
import type { MetricName } from '../../schemas/metrics.js'
import type { RunMode } from '../../schemas/runs.js'
import { poolCall, rpc } from '../../schemas/subjects.js'
import { startGraphs } from '../../workers/graph/main.js'
import { startResources } from '../../workers/resources/main.js'
import { figureOf } from '../helpers/figures.js'
import { startNats, type TestNats } from '../helpers/nats.js'
import { type Step, stepsIn } from '../helpers/steps.js'
import { storeOf } from '../helpers/stores/store.js'
import { until } from '../helpers/until.js'
import { appOf } from '../host/host-helper.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

export interface Event {
  id: number
  event: string
  data: unknown
}

export interface Started {
  run_id: string
  thread_id: string
  /** The steps in the log of the graph. */
  steps(): Step[]
  /** Resolves when the graph has begun this many steps. */
  begun(count: number): Promise<Step[]>
  events: Event[]
  ended: Promise<Ending>
}

export interface Workers {
  nats: TestNats
  caller: Caller
  follower: Follower
  edge: Link
  /** Another graph worker; `url` of the broker when it is reached another way. */
  addGraphs(config?: Partial<Config>, url?: string): Promise<Lifecycle>
  graphs: Lifecycle
  /** The counters of the workers of a role. */
  figure(role: Role, name: MetricName, labels?: { [label: string]: string }): Promise<number>
  /** A connection of a role, closed at the end. */
  open(role: Role): Promise<Link>
  /** Stops the resource worker and starts it again after `ms`. */
  storeAway(ms: number): Promise<void>
  /** Creates a run as the edge does: follows it first. */
  run(graph: string, input: object, options?: RunOptions): Promise<Started>
  /** Starts another reader. */
  read(run_id: string, events: Event[], resumable?: boolean): Promise<Ending>
  thread(): Promise<string>
  row(run_id: string): Promise<{ status: string }>
  threadRow(thread_id: string): Promise<{ status: string; values: { done?: number[] } | null }>
  cancel(run_id: string): Promise<void>
  stop(): Promise<void>
}

export interface RunOptions {
  thread_id?: string
  mode?: RunMode
  body?: object
}

export async function startWorkers(settings: Partial<Config> = {}): Promise<Workers> {
  const nats = await startNats()
  const folder = mkdtempSync(join(tmpdir(), 'weft-faults-'))
  const store = await storeOf(folder)
  const configOf = (more: Partial<Config>) =>
    readConfig(
      {},
      {
        data: join(folder, 'data'),
        app: appOf('faults'),
        max_file_store: 1024 ** 3,
        stop_ms: 6_000,
        nats_issuer: issuerSeedOf(nats.data),
        ...store,
        ...settings,
        ...more,
      },
    )
  const config = configOf({})
  const lifecycles: Lifecycle[] = []
  const links: Link[] = []
  const open = async (role: Role, url = nats.url(role), sender = servedBy(config)) => {
    const link = await openLink({ url, role, ...(role === 'graphs' ? { sender } : {}), log })
    links.push(link)
    return link
  }
  const edge = await open('edge')
  const mux: Mux = openMux(edge)
  const caller = openCaller(edge)
  const follower = openFollower(edge, mux)
  const startStore = async () => {
    const life = lifecycle(log, config.stop_ms)
    lifecycles.push(life)
    await startResources(config, await open('resources'), life)
    return life
  }
  let resources = await startStore()
  const addGraphs = async (more: Partial<Config> = {}, url?: string) => {
    const life = lifecycle(log, config.stop_ms)
    lifecycles.push(life)
    await startGraphs(configOf(more), await open('graphs', url, servedBy(configOf(more))), life)
    return life
  }
  const graphs = await addGraphs()
  const json = (body: Uint8Array) => JSON.parse(Buffer.from(body).toString())

  return {
    nats,
    caller,
    follower,
    edge,
    addGraphs,
    graphs,
    async figure(role, name, labels) {
      const found = await Promise.all(
        links.filter(link => link.role === role && link.connected()).map(link => figureOf(link, name, labels)),
      )
      return found.reduce((sum, one) => sum + one, 0)
    },
    open,
    async storeAway(ms) {
      await resources.stop()
      await sleep(ms)
      resources = await startStore()
    },
    async run(graph, input, { thread_id, mode = 'stream', body = {} } = {}) {
      const run_id = randomUUID()
      const file = join(folder, `${run_id}.log`)
      writeFileSync(file, '')
      const events: Event[] = []
      const ended = follow(follower, token('run', run_id), 'stream_resumable' in body, events)
      const answer = await caller.ask(
        rpc('runs', 'create'),
        {
          request_id: run_id,
          run: { run_id, mode },
          ...(thread_id === undefined ? {} : { params: { thread_id } }),
        },
        Buffer.from(
          JSON.stringify({
            assistant_id: graph,
            input: { log: file, ...input },
            stream_mode: ['values', 'custom'],
            on_disconnect: 'continue',
            config: { recursion_limit: 1_000 },
            ...body,
          }),
        ),
      )
      const steps = () => stepsIn(file)
      return {
        run_id,
        thread_id: answer.head.run!.thread_id,
        steps,
        async begun(count) {
          await until(() => steps().length >= count)
          return steps()
        },
        events,
        ended,
      }
    },
    read: (run_id, events, resumable = false) => follow(follower, token('run', run_id), resumable, events),
    async thread() {
      const thread_id = randomUUID()
      await caller.ask(rpc('threads', 'create'), { request_id: 't' }, Buffer.from(JSON.stringify({ thread_id })))
      return thread_id
    },
    row: async run_id =>
      (
        json(
          (
            await caller.ask(
              rpc('runs', 'peek'),
              { request_id: 't' },
              Buffer.from(JSON.stringify({ run_ids: [run_id] })),
            )
          ).body,
        ) as { runs: { status: string }[] }
      ).runs[0]!,
    threadRow: async thread_id =>
      json((await caller.ask(rpc('threads', 'get'), { request_id: 't', params: { thread_id } })).body),
    async cancel(run_id) {
      // Like after a disconnect of the client that created the run.
      await caller.ask(rpc('runs', 'disconnect'), { request_id: 't' }, Buffer.from(JSON.stringify({ run_id })))
    },
    async stop() {
      for (const life of lifecycles.reverse()) await life.stop()
      for (const link of links) await link.close()
      mux.close()
      caller.close()
      await nats.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Reads as the edge does: drops ids that are not greater, replays missing ones. Resolves at the end of the run. */
function follow(follower: Follower, run: RunId, resumable: boolean, events: Event[]): Promise<Ending> {
  let sent = -1
  let hole = false
  const take = (batch: Batch) => {
    const next = after(batch, sent)
    if (next === null) return
    if (!follows(sent, next.first)) {
      hole = true
      return
    }
    sent = next.first + next.count - 1
    events.push(...eventsIn(Buffer.from(next.bytes).toString()))
  }
  return new Promise(resolve => {
    const stop = follower.follow(run, {
      onBatch: batch => {
        take(batch)
        if (hole) {
          hole = false
          void follower.replay(run, { pool: token('pool', 'default'), resumable, after: sent }, take).catch(() => {})
        }
      },
      onEnd: ending => {
        stop()
        const finish = async () => {
          for (let n = 0; n < 20 && sent < ending.last_event_id - (ending.error === null ? 0 : 1); n++) {
            await follower.replay(run, { pool: token('pool', 'default'), resumable, after: sent }, take).catch(() => {})
            await sleep(50)
          }
          const { error, last_event_id } = ending
          if (error !== null && last_event_id > sent) events.push({ id: last_event_id, event: 'error', data: error })
          resolve(ending)
        }
        setTimeout(() => void finish(), 50)
      },
    })
  })
}

const eventsIn = (text: string): Event[] =>
  text
    .split('\n\n')
    .slice(0, -1)
    .map(part => {
      const [id, event, data] = part.split('\n')
      return { id: Number(id!.slice(4)), event: event!.slice(7), data: JSON.parse(data!.slice(6)) }
    })

/** The graph workers. */
export const SENDER = { app: BUILT_IN_APP, pool: 'default' }

/** The token of the worker that has the run, from its next heartbeat. */
export const tokenOf = (link: Link, run_id: string) =>
  new Promise<string>(found => {
    const heartbeats = link.subscribe(poolCall(SENDER, 'runs', 'heartbeat'), ({ data }) => {
      for (const { body } of entriesOf(data).filter(({ kind }) => kind === KIND.whole))
        for (const one of (JSON.parse(Buffer.from(body).toString()) as Heartbeat).runs)
          if (one.run_id === run_id) {
            heartbeats.unsubscribe()
            found(one.token)
          }
    })
  })

/** Rejects instead of hanging. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const stop = new AbortController()
  const late = sleep(ms, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`no result within ${ms} ms`)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    stop.abort()
    late.catch(() => {})
  }
}
