import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import type { Row } from '../harness/row.js'
import { type Begin, begunIn, lateNodes, overlaps } from '../harness/witness.js'

const STRATEGIES = ['enqueue', 'reject', 'interrupt', 'rollback'] as const
const STEPS = 3

interface Call {
  thread_id: string
  key: string
  run_id: string | null
  status: number
  /** Nanoseconds of the monotonic clock. */
  sent: bigint
  answered: bigint
}

export const row: Row = {
  number: 11,
  name: 'One run per thread',
  fault:
    'Many clients create runs on few threads at once with each multitask strategy, while graph workers are killed.',
  promised:
    'No two runs of a thread execute at the same time. `enqueue` keeps the order of acceptance, `reject` answers 409 and ' +
    'leaves nothing, all threads become free.',
  async run(stage) {
    const roles = await stage.roles()
    const clients = stage.size(12, 50)
    const each = stage.size(3, 5, 20)
    const threads = stage.size(4, 10)
    const url = (n: number) => roles.urls[n % roles.urls.length]!
    const said: string[] = []
    let order = 0
    for (const strategy of STRATEGIES) {
      const ids: string[] = []
      for (let n = 0; n < threads; n++)
        ids.push(
          (await stage.ledger.call<{ thread_id: string }>({ url: url(0), path: '/threads', body: {} })).body!.thread_id,
        )
      const calls: Call[] = []
      const client = async (c: number) => {
        for (let n = 0; n < each; n++) {
          const thread_id = ids[(c + n) % threads]!
          const key = `${strategy}-${c}-${n}`
          const sent = process.hrtime.bigint()
          const answer = await stage.ledger.call<{ run_id: string }>({
            url: url(c),
            path: `/threads/${thread_id}/runs`,
            body: {
              assistant_id: 'witness',
              input: { file: stage.witness, key, steps: STEPS, ms: 60, how: 'signal' },
              multitask_strategy: strategy,
              durability: 'sync',
            },
          })
          const { status, body } = answer
          const run_id = answer.outcome === 'ok' ? body!.run_id : null
          calls.push({ thread_id, key, run_id, status, sent, answered: process.hrtime.bigint() })
          await sleep(20)
        }
      }
      const kill = setInterval(
        () => void stage.replace(roles, 'graphs', stage.random.between(0, 2)).catch(() => {}),
        8_000,
      )
      await Promise.all(Array.from({ length: clients }, (_, c) => client(c)))
      clearInterval(kill)
      await stage.replace(roles, 'graphs', 0)
      const busy = async () => {
        const read = async (thread_id: string) =>
          (
            await stage.ledger.call<{ status: string }[]>({
              url: url(0),
              method: 'GET',
              path: `/threads/${thread_id}/runs?limit=1000`,
            })
          ).body!.filter(({ status }) => ['pending', 'running'].includes(status)).length
        return (await Promise.all(ids.map(read))).reduce((sum, n) => sum + n, 0)
      }
      const isFree = await until(async () => (await busy()) === 0, 180_000).catch(() => false)
      stage.expect(isFree, `${strategy}: runs do not end`)
      const codes = [...new Set(calls.filter(({ run_id }) => run_id === null).map(({ status }) => status))]
      const allowed = strategy === 'reject' ? [409, 503, 0] : [503, 0]
      stage.expect(
        codes.every(code => allowed.includes(code)),
        `${strategy}: creates were refused with ${codes}`,
      )
      const rejected = calls.filter(({ status }) => status === 409).length
      if (strategy === 'reject') stage.expect(rejected > 0, 'reject: no create was rejected')
      if (strategy === 'enqueue') order = outOfOrder(calls, begunIn(stage.witness))
      const accepted = calls.filter(({ run_id }) => run_id !== null).length
      said.push(`${strategy}: ${accepted} of ${calls.length} accepted`)
    }
    stage.expect(order === 0, `${order} runs began before one that was accepted earlier`)
    const nodes = begunIn(stage.witness)
    const clashes = overlaps(nodes)
    stage.expect(clashes.length === 0, `${clashes.length} overlaps: ${clashes[0]}`)
    const late = lateNodes(nodes).length
    stage.expect(late === 0, `${late} nodes of old attempts began beside what followed them`)
    await stage.noChildLeft()
    return {
      load: `${clients} clients, ${each} creates each, on ${threads} threads, with each of ${STRATEGIES.length} strategies`,
      measured: `${clashes.length} overlaps, ${order} runs out of order; ${said.join(', ')}`,
    }
  },
}

/** Runs that began before another of their thread whose create was answered before theirs was sent. */
function outOfOrder(calls: readonly Call[], nodes: readonly Begin[]): number {
  const first = new Map<string, bigint>()
  for (const { key, at } of nodes) if (!first.has(key) || at < first.get(key)!) first.set(key, at)
  const begun = calls.filter(({ key, run_id }) => run_id !== null && first.has(key))
  return begun.filter(late =>
    begun.some(
      early =>
        early.thread_id === late.thread_id &&
        early.answered < late.sent &&
        first.get(early.key)! > first.get(late.key)!,
    ),
  ).length
}
