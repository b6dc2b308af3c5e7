import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { quantile } from '../harness/ledger.js'
import type { Row } from '../harness/row.js'
import type { Stage } from '../harness/stage.js'
import { begunIn } from '../harness/witness.js'

const SIGNAL_MS = 300
const HARD_MS = 6_000
/** The work of the run when it is cancelled. */
const MOMENTS = ['signal', 'wait', 'busy', 'before pick-up', 'rollback'] as const
type Moment = (typeof MOMENTS)[number]

export const row: Row = {
  number: 12,
  name: 'Cancel stops the work',
  fault:
    'A cancel with `wait` while a node awaits with the signal, awaits without it, blocks the event loop, before the run is ' +
    'picked up, and as a rollback.',
  promised:
    `No node starts after the answer; the run is interrupted, a rollback removes it. p95 ≤ ${SIGNAL_MS} ms with the signal, ` +
    `at most ${HARD_MS / 1_000} s in a loop.`,
  async run(stage) {
    const roles = await stage.roles({ graphs: 2, env: { N_JOBS_PER_WORKER: '50' } })
    const url = roles.urls[0]!
    const each = stage.size(6, 40, 100)
    const times = new Map<Moment, number[]>()
    for (const moment of MOMENTS) {
      const all: number[] = []
      // A host is blocked as a whole: those runs are cancelled one after the other.
      const width = moment === 'busy' ? 1 : 5
      const count = moment === 'busy' ? Math.ceil(each / 4) : each
      for (let n = 0; n < count; n += width)
        all.push(...(await Promise.all(Array.from({ length: width }, (_, i) => cancelOne(stage, url, moment, n + i)))))
      times.set(moment, all)
    }
    await sleep(5_000)
    const late = lateNodes(stage)
    stage.expect(late === 0, `${late} nodes began after the answer to a cancel`)
    const p95 = quantile(times.get('signal')!, 0.95)
    const worst = Math.max(...[...times.values()].flat())
    stage.expectTime(p95 <= SIGNAL_MS, `p95 ${Math.round(p95)} ms with the signal`)
    stage.expectTime(worst <= HARD_MS, `a cancel took ${Math.round(worst)} ms`)
    const said = [...times].map(([moment, all]) => `${moment} ${Math.round(quantile(all, 0.95))} ms`).join(', ')
    return {
      load: MOMENTS.map(moment => `${times.get(moment)!.length} ${moment}`).join(', '),
      measured: `p95 ${said}; ${Math.round(worst)} ms at most; ${late} nodes began after an answer`,
    }
  },
}

/** When each cancel was answered, by the key of its run (ns). */
const answered = new Map<string, bigint>()

const lateNodes = (stage: Stage): number =>
  begunIn(stage.witness).filter(({ key, at }) => at > (answered.get(`${stage.witness} ${key}`) ?? at)).length

/** Starts a run and cancels it; milliseconds until the answer. */
async function cancelOne(stage: Stage, url: string, moment: Moment, n: number): Promise<number> {
  const { call } = stage.ledger
  const { body: thread } = await call<{ thread_id: string }>({ url, path: '/threads', body: {} })
  const runs = `/threads/${thread!.thread_id}/runs`
  const create = (key: string, how: string, steps = 5) =>
    call<{ run_id: string }>({
      url,
      path: runs,
      body: {
        assistant_id: 'witness',
        input: { file: stage.witness, key, steps, ms: how === 'wait' ? 1_000 : 20_000, how },
        multitask_strategy: 'enqueue',
      },
    })
  const key = `${moment.replaceAll(' ', '-')}-${n}`
  const how = { signal: 'signal', wait: 'wait', busy: 'busy', 'before pick-up': 'signal', rollback: 'signal' }[moment]
  const before = moment === 'before pick-up' ? await create(`${key}-first`, 'signal') : null
  const { body: run } = await create(key, how)
  if (before === null) await until(() => begunIn(stage.witness).some(one => one.key === key))
  if (moment === 'busy') await sleep(300)
  const since = performance.now()
  const action = moment === 'rollback' ? '&action=rollback' : ''
  const answer = await call({ url, path: `${runs}/${run!.run_id}/cancel?wait=1${action}`, body: {} })
  const ms = performance.now() - since
  answered.set(`${stage.witness} ${key}`, process.hrtime.bigint())
  stage.expect(answer.outcome === 'ok', `${moment}: the cancel was answered ${answer.status}`)
  const after = await call<{ status: string }>({ url, method: 'GET', path: `${runs}/${run!.run_id}` })
  if (moment === 'rollback') stage.expect(after.status === 404, `rollback: the run is answered ${after.status}`)
  else stage.expect(after.body?.status === 'interrupted', `${moment}: the run is ${after.body?.status}`)
  if (before !== null) await call({ url, path: `${runs}/${before.body!.run_id}/cancel?wait=1`, body: {} })
  return ms
}
