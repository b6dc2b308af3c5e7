import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import type { Stage } from '../harness/stage.js'

/** From the first answer of the broker's port to a ready edge, and a margin for the poll. */
const BACK_MS = 2_000
/** The same after an outage in which calls have gathered. */
const LONG_BACK_MS = 5_000
/** A call is answered within this time also while /ready says 503. */
const CALL_MS = 10_000
/** Creates that are sent while /ready says 503. */
const CREATES = 10

export const row: Row = {
  number: 6,
  name: 'Broker process death',
  fault:
    'kill -9 of the NATS server, started again after a second, again and again; then one that stays away, and a pause by ' +
    'SIGSTOP.',
  promised:
    'Every accepted run ends; a create is answered 2xx or 503, or not at all and then repeated with its key. Edges and ' +
    `workers are back within ${BACK_MS / 1_000} s of the broker, and within ${LONG_BACK_MS / 1_000} s after a long outage; streams go on by themselves. While \`/ready\` says 503, creates are answered ` +
    `within ${CALL_MS / 1_000} s, and a 503 names the run to ask for unless none can have been accepted. A pause makes no stream anew.`,
  async run(stage) {
    const roles = await stage.roles()
    const kills = stage.size(2, 3, 8)
    const every = stage.size(6, 12, 15)
    const perSecond = stage.size(10, 20)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond, steps: 6, ms: 150, events: 3 })
    const backs: number[] = []
    const longBacks: number[] = []
    const statusOf = (url: string) => fetch(`${url}/ready`).then(({ status }) => status)
    const untilReady = (status: number) =>
      until(async () => (await Promise.all(roles.urls.map(statusOf))).every(one => one === status), 20_000)
    const back = async (times: number[]) => {
      const since = performance.now()
      await untilReady(200)
      times.push(performance.now() - since)
    }
    for (let n = 0; n < kills; n++) {
      await sleep(every * 1_000)
      roles.nats.kill()
      await sleep(1_000)
      await roles.nats.restart()
      await back(backs)
    }
    const away = stage.size(10, 15)
    const told: Told[] = []
    /** Creates runs while the broker does not answer, then lets it answer again. */
    const outage = async (end: () => unknown) => {
      const over = sleep(away * 1_000)
      await untilReady(503)
      told.push(...(await createRuns(stage, roles.urls)))
      await over
      await end()
      await back(longBacks)
    }
    await sleep(2_000)
    roles.nats.kill()
    await outage(() => roles.nats.restart())
    await sleep(2_000)
    const pid = roles.nats.pid()!
    process.kill(pid, 'SIGSTOP')
    const resume = () => process.kill(pid, 'SIGCONT')
    stage.defer(() => roles.nats.pid() === pid && resume())
    await outage(resume)
    await load.stop()
    const slow = stage.ledger.slowest()
    await checkAll(stage, roles, load)
    const named = told.flatMap(({ path }) => path ?? [])
    const later = await Promise.all(
      named.map(async path => (await stage.ledger.call({ url: roles.urls[0]!, method: 'GET', path })).outcome === 'ok'),
    )
    stage.expect(
      told.every(({ why }) => why === null),
      told.find(({ why }) => why !== null)?.why ?? '',
    )
    stage.expectTime(slow <= CALL_MS, `a call took ${(slow / 1_000).toFixed(1)} s`)
    const anew = roles.resources.filter(proc => proc.output().includes('created anew'))
    stage.expect(anew.length === 0, 'a stream was made anew')
    const refused = [...stage.ledger.refused()].filter(status => status !== 503)
    stage.expect(refused.length === 0, `calls were refused with ${refused}`)
    const [latest, long] = [backs, longBacks].map(times => Math.round(Math.max(...times))) as [number, number]
    stage.expectTime(latest <= BACK_MS, `ready ${latest} ms after the broker`)
    stage.expectTime(long <= LONG_BACK_MS, `ready ${long} ms after a long outage of the broker`)
    const unknown = stage.ledger.count('unknown')
    return {
      load: `${load.items.length} runs at ${perSecond} a second; ${kills} kills, one every ${every} s; away and paused for ${away} s each`,
      measured:
        `${load.succeeded()} of ${load.items.length} succeeded; ready ${latest} ms after the broker at most, ${long} ms after a long outage; ` +
        `${stage.ledger.count('fail')} calls refused, ${unknown} without an answer; the slowest call took ` +
        `${(slow / 1_000).toFixed(1)} s; of ${told.length} creates without a broker ${named.length} named their run, ` +
        `${later.filter(Boolean).length} of these were accepted later`,
    }
  },
}

interface Told {
  /** Where to ask for the run; null: it was not accepted. */
  path: string | null
  /** The defect of the answer; null: none. */
  why: string | null
}

/** Creates runs with and without a thread, and reads what their refusals say. */
async function createRuns(stage: Stage, urls: readonly string[]): Promise<Told[]> {
  const input = { file: stage.witness, key: 'without a broker', steps: 1, ms: 1 }
  const thread_id = randomUUID()
  const paths = ['/runs', '/runs/stream', `/threads/${thread_id}/runs`, `/threads/${thread_id}/runs/wait`]
  const one = async (n: number): Promise<Told> => {
    const body = { assistant_id: 'other', input, if_not_exists: 'create', on_completion: 'keep' }
    const path = paths[n % paths.length]!
    const call = await stage.ledger.call<{ detail: string }>({ url: urls[n % urls.length]!, path, body })
    const detail = call.body?.detail ?? ''
    if (call.status !== 503 || call.retryAfter === null)
      return { path: null, why: `a create without a broker was answered ${call.status}` }
    const [, named] = /not known: GET (\S+) answers 200 then$/.exec(detail) ?? []
    if (named !== undefined) return { path: named, why: null }
    const isCertain = /^(The broker cannot be reached|No worker serves this request)/.test(detail)
    return { path: null, why: isCertain ? null : `a create without a broker was answered "${detail}"` }
  }
  return Promise.all(Array.from({ length: CREATES }, (_, n) => one(n)))
}
