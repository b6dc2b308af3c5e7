/** The same calls with few and with many threads, checkpoints, runs and items. Two servers, or two threads, take turns. */

import { type Connection, openConnection, requestText } from '../http.js'
import type { Bench, Scenario } from '../scenario.js'
import { askJson, createThread } from '../scenarios-resources.js'
import type { Server } from '../server.js'
import { check, shown } from '../wrong.js'
import { type Call, compare, exercise, fill, get, post, two } from './compare.js'
import { growingItems } from './growth-items.js'

export const GROWTH: readonly Scenario[] = [
  growth('growth-threads', 'threads: 1,000 and 100,000 (--size)', growingThreads),
  growth('growth-checkpoints', 'checkpoints on a thread: 3 and 10,000 (--size)', growingCheckpoints),
  growth('growth-runs', 'stored runs: 0 and 20,000 (--size)', growingRuns),
  growth('growth-items', 'items: 1,000 and 100,000 (--size), ten in a namespace', growingItems),
]

/** The row is the slowest call's ratio; a count of all, a list of all namespaces and a deletion of a long thread read what they count. */
function growth(name: string, what: string, run: Scenario['run']): Scenario {
  return { name, what, unit: ' ×', better: 'less', target: 1.3, per: 'call', starts: true, once: true, run }
}

async function growingThreads(bench: Bench) {
  const [few, many] = bench.quick ? [50, 500] : [1_000, bench.size ?? 100_000]
  const metadata = (i: number) => ({ n: i, of: 'growth', seventh: i % 7 })
  return two(bench, async (small, large) => {
    const ids = async ({ port }: Server, count: number) => {
      const made: string[] = []
      await fill(port, count, async (connection, i) => {
        const { thread_id } = await post<{ thread_id: string }>(connection, '/threads', { metadata: metadata(i) })
        made[i] = thread_id
      })
      return made
    }
    const [smallIds, largeIds] = [await ids(small, few), await ids(large, many)]
    await exercise(small.port, bench.quick ? 0.5 : 5, (connection, n) =>
      get(connection, `/threads/${smallIds[n % few]}`),
    )
    return compare(
      { port: small.port, calls: callsOnThreads(smallIds) },
      { port: large.port, calls: callsOnThreads(largeIds) },
      bench,
    )
  })
}

function callsOnThreads(ids: readonly string[]): Call[] {
  // Not a divisor of the count, so that requests reach threads of every age.
  const pick = (n: number) => (n * 7_919) % ids.length
  const id = (n: number) => ids[pick(n)]!
  const found = async (connection: Connection, body: object, least = 1) => {
    const list = await post<unknown[]>(connection, '/threads/search', { limit: 10, ...body })
    check(list.length >= least, () => `${list.length} threads were found with ${JSON.stringify(body)}`)
  }
  return [
    { name: 'get thread', ask: (c, n) => get(c, `/threads/${id(n)}`) },
    {
      name: 'patch thread',
      ask: (c, n) => askJson(c, requestText('PATCH', `/threads/${id(n)}`, { metadata: { patched: n } })),
    },
    { name: 'thread state', ask: (c, n) => get(c, `/threads/${id(n)}/state`) },
    { name: 'newest threads', ask: c => found(c, {}, 10) },
    { name: 'oldest threads', ask: c => found(c, { sort_by: 'created_at', sort_order: 'asc' }, 10) },
    { name: 'threads by rare metadata', ask: (c, n) => found(c, { metadata: { n: pick(n), of: 'growth' } }) },
    { name: 'threads by metadata of a seventh', ask: (c, n) => found(c, { metadata: { seventh: n % 7 } }, 7) },
    { name: 'threads by status', ask: c => found(c, { status: 'idle' }, 10) },
    {
      name: 'count of a rare metadata',
      ask: async (c, n) => {
        const count = await post<number>(c, '/threads/count', { metadata: { n: pick(n) } })
        check(count === 1, () => `one thread was expected, not ${count}`)
      },
    },
    { name: 'create thread', ask: (c, n) => createThread(c, n) },
    { name: 'run on a thread', ask: (c, n) => echoOn(c, `/threads/${id(n)}`, n) },
    { name: 'run without a thread', ask: (c, n) => echoOn(c, '', n) },
    { name: 'delete thread', ask: deleteNew },
  ]
}

async function echoOn(connection: Connection, path: string, n: number): Promise<void> {
  const values = await post<{ seen?: string }>(connection, `${path}/runs/wait`, {
    assistant_id: 'echo',
    input: { text: `text ${n}` },
  })
  check(values.seen === `text ${n}`, () => `"text ${n}" should have come back: ${shown(values)}`)
}

/** The time of the deletion alone. */
async function deleteNew(connection: Connection, n: number): Promise<number> {
  const { thread_id } = await createThread(connection, n)
  const since = performance.now()
  const { status } = await connection.ask(requestText('DELETE', `/threads/${thread_id}`))
  check(status === 204, `HTTP ${status} for a deletion`)
  return performance.now() - since
}

/** Two threads of one server: a run of one step on the first, one of many steps on the second. */
async function growingCheckpoints(bench: Bench) {
  const steps = bench.quick ? 50 : (bench.size ?? 10_000)
  const server = await bench.kind!.start()
  const connection = openConnection(server.port)
  try {
    const place = async (count: number) => {
      const { thread_id } = await createThread(connection, 0)
      const body = { assistant_id: 'steps', input: { count }, config: { recursion_limit: count + 10 } }
      const { done } = await post<{ done?: number }>(connection, `/threads/${thread_id}/runs/wait`, body)
      check(done === count, () => `the run should have done ${count} steps, not ${done}`)
      const [oldest] = await oldestOf(connection, thread_id)
      return { port: server.port, calls: callsOnHistory(`/threads/${thread_id}`, oldest!) }
    }
    return await compare(await place(1), await place(steps), bench)
  } finally {
    connection.close()
    await server.stop()
  }
}

interface Snapshot {
  checkpoint: { checkpoint_id: string }
  parent_checkpoint: { checkpoint_id: string } | null
}

/** Follows the history page by page to its first checkpoint. */
async function oldestOf(connection: Connection, thread_id: string): Promise<string[]> {
  let before: object | undefined
  for (let last: string[] = []; ; ) {
    const page = await post<Snapshot[]>(connection, `/threads/${thread_id}/history`, { limit: 500, before })
    if (page.length === 0) return last
    last = [page.at(-1)!.checkpoint.checkpoint_id]
    before = { configurable: { thread_id, checkpoint_id: last[0] } }
  }
}

function callsOnHistory(path: string, oldest: string): Call[] {
  return [
    { name: 'thread state', ask: c => get(c, `${path}/state`) },
    { name: 'get thread', ask: c => get(c, path) },
    { name: 'state at the oldest checkpoint', ask: c => get(c, `${path}/state/${oldest}`) },
    { name: 'history of 3', ask: c => post(c, `${path}/history`, { limit: 3 }) },
    { name: 'runs of the thread', ask: c => get(c, `${path}/runs?limit=10`) },
    { name: 'newest threads', ask: c => post(c, '/threads/search', { limit: 10 }) },
    { name: 'update state', ask: c => post(c, `${path}/state`, { values: { done: 0 }, as_node: 'step' }) },
    {
      name: 'run of one step',
      ask: async c => {
        const values = await post<{ done?: number }>(c, `${path}/runs/wait`, {
          assistant_id: 'steps',
          input: { count: 1 },
        })
        check(Number(values.done) > 0, () => `no step was made: ${shown(values)}`)
      },
    },
  ]
}

/** Twenty runs on each thread. */
async function growingRuns(bench: Bench) {
  const runs = bench.quick ? 60 : (bench.size ?? 20_000)
  return two(bench, async (small, large) => {
    const place = async ({ port }: Server, count: number) => {
      const threads: string[] = []
      await fill(port, Math.max(1, Math.round(count / 20)), async (connection, i) => {
        const { thread_id } = await createThread(connection, i)
        threads[i] = thread_id
        for (let n = 0; n < (count === 0 ? 1 : 20); n++) await echoOn(connection, `/threads/${thread_id}`, n)
      })
      const run = await firstRun(port, threads[0]!)
      return { port, calls: callsOnRuns(threads, run) }
    }
    const from = await place(small, 0)
    const to = await place(large, runs)
    await exercise(small.port, bench.quick ? 0.5 : 10, (connection, n) => echoOn(connection, '', n))
    return compare(from, to, bench)
  })
}

async function firstRun(port: number, thread_id: string): Promise<string> {
  const connection = openConnection(port)
  try {
    const [run] = await askJson<{ run_id: string }[]>(connection, requestText('GET', `/threads/${thread_id}/runs`))
    return run!.run_id
  } finally {
    connection.close()
  }
}

function callsOnRuns(threads: readonly string[], run: string): Call[] {
  const path = `/threads/${threads[0]}`
  return [
    { name: 'run without a thread', ask: (c, n) => echoOn(c, '', n) },
    {
      name: 'first run of a thread',
      ask: async (c, n) => {
        const { thread_id } = await createThread(c, n)
        const since = performance.now()
        await echoOn(c, `/threads/${thread_id}`, n)
        return performance.now() - since
      },
    },
    { name: 'get run', ask: c => get(c, `${path}/runs/${run}`) },
    { name: 'join of an ended run', ask: c => get(c, `${path}/runs/${run}/join`) },
    { name: 'newest run of a thread', ask: c => get(c, `${path}/runs?limit=1`) },
    { name: 'thread state', ask: c => get(c, `${path}/state`) },
    { name: 'newest threads', ask: c => post(c, '/threads/search', { limit: 1 }) },
    { name: 'create thread', ask: (c, n) => createThread(c, n) },
    { name: 'delete thread', ask: deleteNew },
  ]
}
