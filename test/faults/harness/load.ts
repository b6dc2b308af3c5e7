/**
 * Clients that create runs at a steady rate while faults happen: each call is in the ledger, each run in the file of the
 * witness, and some runs are followed. A create without an answer is repeated with its key when all has healed, as
 * docs/api.md says.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { type Follower, followRun } from './follow.js'
import type { Stage } from './stage.js'

export interface LoadOptions {
  /** Servers; each call takes the next one. */
  urls: () => readonly string[]
  perSecond: number
  steps?: number
  /** Duration of a step. */
  ms?: number | (() => number)
  how?: 'wait' | 'signal' | 'busy' | 'throw'
  /** Custom events of each step. */
  events?: number
  /** Each n-th run is followed by a client. */
  follow?: number
  /** At most this many runs. */
  most?: number
  /** The runs share these threads, in turn; each has one of its own when absent. */
  threads?: readonly string[]
  /** Further members of the create. */
  body?: object
}

export interface Item {
  key: string
  thread_id: string
  run_id: string | null
  /** When its create was sent (ms, performance.now). */
  sent: number
  steps: number
  sync: boolean
  follower: Follower | null
  /** Status after the end; null: it has not ended. */
  status: string | null
}

export interface Load {
  /** Every run whose create was not refused. */
  items: Item[]
  accepted(): Item[]
  /** How many of them ended as success. */
  succeeded(): number
  /** Waits until all of them are created, with `most`. */
  created(): Promise<void>
  /** Creates no more runs. */
  stop(): Promise<void>
  /** Repeats the unanswered creates, then waits until all runs have ended or `ms` have passed. */
  settle(ms?: number): Promise<void>
}

const SETTLE_MS = 120_000
const ENDED = ['success', 'error', 'timeout', 'interrupted']
/** Runs whose status is asked for at the same time. */
const AT_ONCE = 20

let named = 0

/** Null: the call was not answered 2xx. */
export async function newThread({ ledger }: Stage, url: string): Promise<string | null> {
  const { outcome, body } = await ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
  return outcome === 'ok' ? body!.thread_id : null
}

export function startLoad(stage: Stage, options: LoadOptions): Load {
  const {
    urls,
    perSecond,
    steps = 5,
    ms = 100,
    how = 'wait',
    events = 0,
    follow = 5,
    most = Infinity,
    threads,
  } = options
  const { ledger, witness } = stage
  const items: Item[] = []
  let on = true
  let calls = 0
  const urlOf = () => {
    const all = urls()
    return all[calls++ % all.length]!
  }
  const create = (item: Item, body: object) =>
    ledger.call<{ run_id: string }>({
      url: urlOf(),
      path: `/threads/${item.thread_id}/runs`,
      headers: { 'idempotency-key': item.key },
      body,
    })
  const bodies = new Map<Item, object>()

  const one = async (n: number) => {
    const thread_id = threads === undefined ? await newThread(stage, urlOf()) : threads[n % threads.length]!
    if (thread_id === null) return
    const key = `${process.pid}-${++named}`
    const isFollowed = n % follow === 0
    const sync = n % 2 === 0
    const item: Item = {
      key,
      thread_id,
      run_id: null,
      sent: performance.now(),
      steps,
      sync,
      follower: null,
      status: null,
    }
    const input = { file: witness, key, steps, how, events, ms: typeof ms === 'function' ? ms() : ms, done: null }
    const body = {
      assistant_id: 'witness',
      input,
      stream_mode: ['values', 'custom'],
      config: { recursion_limit: 1_000 },
      on_disconnect: 'continue',
      ...(sync ? { durability: 'sync' } : {}),
      ...(isFollowed ? { stream_resumable: true } : {}),
      ...options.body,
    }
    const { outcome, body: run } = await create(item, body)
    if (outcome === 'fail') return
    items.push(item)
    bodies.set(item, body)
    if (outcome === 'unknown') return
    item.run_id = run!.run_id
    if (isFollowed) item.follower = followRun(urlOf, `/threads/${item.thread_id}/runs/${item.run_id}/stream`)
  }

  const begun = performance.now()
  const running = new Set<Promise<void>>()
  const loop = (async () => {
    for (let n = 0; on && n < most; n++) {
      const work: Promise<void> = one(n).finally(() => running.delete(work))
      running.add(work)
      // The rate of the schedule, not of the answers.
      await sleep(Math.max(0, begun + ((n + 1) * 1_000) / perSecond - performance.now()))
    }
  })()

  const created = async () => {
    await loop
    await Promise.all(running)
  }

  const statusOf = async (item: Item) => {
    const path = `/threads/${item.thread_id}/runs/${item.run_id}`
    const { body } = await ledger.call<{ status: string }>({ url: urlOf(), method: 'GET', path, timeout: 10_000 })
    if (body !== undefined && ENDED.includes(body.status)) item.status = body.status
  }

  return {
    items,
    accepted: () => items.filter(({ run_id }) => run_id !== null),
    succeeded: () => items.filter(({ status }) => status === 'success').length,
    created,
    async stop() {
      on = false
      await created()
    },
    async settle(patience = SETTLE_MS) {
      for (const item of items.filter(({ run_id }) => run_id === null))
        await until(async () => {
          const { outcome, body } = await create(item, bodies.get(item)!)
          if (outcome === 'ok') item.run_id = body!.run_id
          return outcome === 'ok'
        }, patience).catch(() => stage.expect(false, `a create without an answer cannot be repeated`))
      const deadline = performance.now() + patience
      for (;;) {
        const left = items.filter(({ status, run_id }) => status === null && run_id !== null)
        if (left.length === 0) return
        const isLast = performance.now() > deadline
        // The oldest, until one of them has ended: looks at all of them would keep a core busy until the last one has.
        for (let i = 0; i < (isLast ? left.length : 1); i += AT_ONCE)
          await Promise.all(left.slice(i, i + AT_ONCE).map(statusOf))
        if (isLast) return
        if (left.slice(0, AT_ONCE).every(({ status }) => status === null)) await sleep(100)
      }
    },
  }
}
