import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../helpers/until.js'
import { type Followed, type Follower, followRun } from '../../harness/follow.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'

/** From a new connection to its first byte, p95. */
const RESUME_MS = 300
const PER_SECOND = 50
/** Runs that are created at the same time. */
const TOGETHER = 20
/** Until every run has begun. */
const STARTED_MS = 30_000
/** Within it the clients join again. */
const JOINING_MS = 1_000

export const row: Row = {
  number: 5,
  name: 'Edge death mid-stream',
  fault: 'kill -9 of one of two edges in the middle of all streams; its clients join again at the other one.',
  promised: `Every client receives every event once and in order; p95 from joining again to the first byte ≤ ${RESUME_MS} ms.`,
  async run(stage) {
    const clients = stage.size(40, 200)
    const events = stage.size(150, 500)
    const ms = (events * 1_000) / PER_SECOND
    const roles = await stage.roles({ graphs: 2, env: { N_JOBS_PER_WORKER: '200' } })
    let dead = false
    const urlOf = (n: number) => roles.urls[dead ? 1 : n % 2]!
    const begin = async (n: number): Promise<Follower> => {
      const { body } = await stage.ledger.call<{ run_id: string; thread_id: string }>({
        url: urlOf(n),
        path: '/runs',
        body: {
          assistant_id: 'witness',
          input: { file: stage.witness, key: `${n}`, steps: 1, events, ms },
          stream_mode: ['values', 'custom'],
          stream_resumable: n % 2 === 0,
          on_completion: 'keep',
          on_disconnect: 'continue',
        },
      })
      return followRun(() => urlOf(n), `/runs/${body!.run_id}/stream`)
    }
    // Not one after the other: the first would end before the last begins.
    const all: Follower[] = []
    for (let n = 0; n < clients; n += TOGETHER)
      all.push(...(await Promise.all(Array.from({ length: TOGETHER }, (_, i) => begin(n + i)))))
    // In the middle of all of them: a run that waits for its start has nothing to resume.
    await until(() => all.every(({ seen }) => seen.ids.length > 0), STARTED_MS)
    // The start of so many runs keeps the machine busy for a while.
    await sleep((ms * stage.random.between(25, 40)) / 100)
    const cut = all.filter(({ seen }, n) => n % 2 === 0 && seen.state === 'open').length
    dead = true
    stage.kill(roles.edges[0]!)
    const busy = busyShare(JOINING_MS)
    const late = sleep(60_000 + ms, 'late', { ref: false })
    await Promise.race([Promise.all(all.map(({ ended }) => ended)), late])
    const wrong = all.flatMap(({ seen }) => wrongSequence(seen, events) ?? [])
    const whole = clients - wrong.length
    stage.expect(wrong.length === 0, `${wrong.length} of ${clients} clients: one ${wrong[0]}`)
    const resumed = all.flatMap(({ seen }) => seen.resumed)
    stage.expect(resumed.length >= cut * 0.9, `${resumed.length} of ${cut} streams were cut`)
    const p95 = quantile(resumed, 0.95)
    stage.expectTime(p95 <= RESUME_MS, `p95 to the first byte ${Math.round(p95)} ms`)
    for (const { stop } of all) stop()
    stage.tally.streams += clients
    stage.tally.wrong += clients - whole
    stage.tally.broken += resumed.length
    await stage.noChildLeft()
    return {
      load: `${clients} clients, each with ${events} events at ${PER_SECOND} a second`,
      measured: `${whole} of ${clients} received all; ${resumed.length} were cut, first byte ${Math.round(p95)} ms after joining again (p95), with the machine ${Math.round((await busy) * 100)} % busy`,
    }
  },
}

/** The part of the CPU time of the machine that is used within `ms`: the clients and the server share it. */
async function busyShare(ms: number): Promise<number> {
  const look = () => {
    const all = cpus().map(({ times }) => times)
    return { all: sumOf(all.flatMap(one => Object.values(one))), idle: sumOf(all.map(({ idle }) => idle)) }
  }
  const before = look()
  await sleep(ms)
  const now = look()
  return 1 - (now.idle - before.idle) / (now.all - before.all)
}

const sumOf = (all: readonly number[]): number => all.reduce((sum, one) => sum + one, 0)

/** The defect of the events of a client; null: each arrived once and in order. */
function wrongSequence({ state, ids, custom, refusal }: Followed, events: number): string | null {
  if (state !== 'ended') return `is ${state} (${refusal})`
  const gap = ids.findIndex((id, i) => id !== i)
  if (gap !== -1) return `has id ${ids[gap]} after ${ids[gap - 1] ?? 'the start'}`
  return custom.size === events ? null : `received ${custom.size} of ${events} events`
}
