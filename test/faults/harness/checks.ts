/** The conditions after every fault, when all processes run again. */
import { openLink } from '../../../bus/connect.js'
import { openLog } from '../../../bus/log.js'
import { openMux } from '../../../bus/mux.js'
import { RUNS_STREAM } from '../../../schemas/subjects.js'
import type { Roles as AnyRoles } from '../../helpers/cluster.js'
import type { Broker } from '../../helpers/nats.js'
import { until } from '../../helpers/until.js'
import { wrongStream } from './follow.js'
import type { Item, Load } from './load.js'
import type { Stage } from './stage.js'
import { begunIn, byKey, lateNodes, overlaps, wrongExecution } from './witness.js'

type Roles = Pick<AnyRoles<Broker>, 'urls' | 'nats'>

export interface Expected {
  /** The statuses that runs may end with. Default: success. */
  statuses?: readonly string[]
  /** Events may be lost: a follower may be refused, never given a short stream. */
  losesEvents?: boolean
  /** The executions are not checked: the row does it itself. */
  executions?: false
}

/** A stream of a run that has ended must end within this time (row 35). */
const STREAM_MS = 5_000
/** A wake-up that its worker did not acknowledge is delivered again after 15 s, and a held one waits 5 s more. */
const QUEUE_MS = 60_000
/** Threads whose history is read. */
const HISTORIES = 40

/** Waits for the end of the load and checks it; a violation is a sentence of the stage. */
export async function checkAll(
  stage: Stage,
  roles: Roles,
  load: Load,
  { statuses = ['success'], losesEvents = false, executions }: Expected = {},
): Promise<void> {
  await load.stop()
  await load.settle()
  const { items } = load
  const open = items.filter(({ status }) => status === null)
  stage.expect(open.length === 0, `${open.length} of ${items.length} runs have not ended`)
  const foreign = items.filter(({ status }) => status !== null && !statuses.includes(status))
  const found = [...new Set(foreign.map(({ status }) => status))].join(', ')
  stage.expect(foreign.length === 0, `${foreign.length} of ${items.length} runs ended as ${found}`)
  const twice = items.length - new Set(items.map(({ run_id }) => run_id)).size
  stage.expect(twice === 0, `${twice} creates were answered with the run of another one`)
  await checkStreams(stage, items, losesEvents)
  const nodes = begunIn(stage.witness)
  const clashes = overlaps(nodes)
  stage.expect(clashes.length === 0, `${clashes.length} overlaps: ${clashes[0]}`)
  const late = lateNodes(nodes).length
  stage.expect(late === 0, `${late} nodes of old attempts began beside what followed them`)
  if (executions !== false) {
    const keys = byKey(nodes)
    const ended = items.filter(({ status }) => status === 'success')
    const wrong = ended.flatMap(item => wrongExecution(keys.get(item.key) ?? [], item) ?? [])
    stage.expect(wrong.length === 0, `${wrong.length} of ${ended.length} runs executed wrongly: ${wrong[0]}`)
    await checkHistories(stage, roles, ended)
  }
  await checkThreads(stage, roles, items)
  await checkQueue(stage, roles)
  await stage.noChildLeft()
}

/** Row 35: every stream ends, in order, and no stream that is short ends as if it were complete. */
async function checkStreams(stage: Stage, items: readonly Item[], losesEvents: boolean): Promise<void> {
  const followed = items.filter(({ follower, status }) => follower !== null && status !== null)
  const late = new Promise(done => setTimeout(done, STREAM_MS).unref())
  await Promise.race([Promise.all(followed.map(({ follower }) => follower!.ended)), late])
  const wrong = followed.flatMap(({ follower, status, steps }) => wrongStream(follower!.seen, status!, steps) ?? [])
  stage.expect(wrong.length === 0, `${wrong.length} of ${followed.length} streams: one ${wrong[0]}`)
  // Allowed only where nothing older than the run is stored (docs/promises.md).
  const begun = new Set(begunIn(stage.witness).flatMap(({ run_id, attempt }) => (attempt === 1 ? run_id : [])))
  const isUnbegun = ({ run_id, follower }: Item) =>
    follower!.seen.refusal.startsWith('after -1: 409') && !begun.has(run_id!)
  const all = followed.filter(({ follower }) => follower!.seen.state === 'refused')
  const refused = all.filter(item => !isUnbegun(item))
  const unbegun = all.length - refused.length
  stage.expect(
    losesEvents || unbegun === 0,
    `${unbegun} of ${followed.length} streams were refused from the start: the first attempt had ended before its first event`,
  )
  if (!losesEvents)
    stage.expect(
      refused.length === 0,
      `${refused.length} of ${followed.length} streams were refused: ${refused[0]?.follower?.seen.refusal}`,
    )
  stage.tally.streams += followed.length
  stage.tally.wrong += wrong.length
  stage.tally.broken += followed.reduce((sum, { follower }) => sum + follower!.seen.broken, 0)
  for (const { follower } of followed) follower!.stop()
}

/** One checkpoint per step, although attempts have followed each other. */
async function checkHistories(stage: Stage, { urls }: Roles, ended: readonly Item[]): Promise<void> {
  let doubled = 0
  const some = ended.slice(0, HISTORIES)
  for (const { thread_id } of some) {
    const path = `/threads/${thread_id}/history`
    const request = { url: urls[0]!, path, body: { limit: 1_000 } }
    const { body } = await until(async () => {
      const answer = await stage.ledger.call<{ metadata: { step?: number } }[]>(request)
      return answer.outcome === 'ok' && answer
    })
    const steps = (Array.isArray(body) ? body : []).map(({ metadata }) => metadata.step)
    if (steps.length === 0 || new Set(steps).size < steps.length) doubled++
  }
  stage.expect(doubled === 0, `${doubled} of ${some.length} histories lack checkpoints, or have two of one step`)
}

/** Threads of the load: those of crons and of other loads may be busy meanwhile. */
async function checkThreads(stage: Stage, { urls }: Roles, items: readonly Item[]): Promise<void> {
  const own = new Set(items.map(({ thread_id }) => thread_id))
  const request = { url: urls[0]!, path: '/threads/search', body: { status: 'busy', limit: 1_000 } }
  const busy = async () => {
    const { body } = await stage.ledger.call<{ thread_id: string }[]>(request)
    return Array.isArray(body) ? body.filter(({ thread_id }) => own.has(thread_id)).length : -1
  }
  await until(async () => (await busy()) === 0, 5_000).catch(async () =>
    stage.expect(false, `${await busy()} threads stay busy`),
  )
}

interface ConsumerInfo {
  num_pending: number
  num_ack_pending: number
}

/**
 * Every wake-up was acknowledged. The messages of the stream are not counted: a broker that is killed may keep one whose
 * acknowledgement its consumer has stored.
 */
async function checkQueue(stage: Stage, { nats }: Roles): Promise<void> {
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log: openLog('faults', 'silent') })
  const mux = openMux(link)
  const left = async () => {
    const answer = await mux.ask(`$JS.API.CONSUMER.LIST.${RUNS_STREAM}`, new Uint8Array()).catch(() => null)
    const consumers = answer?.json<{ consumers?: ConsumerInfo[] }>().consumers
    return consumers?.reduce((sum, one) => sum + one.num_pending + one.num_ack_pending, 0) ?? -1
  }
  try {
    await until(async () => (await left()) === 0, QUEUE_MS)
  } catch {
    stage.expect(false, `${await left()} wake-ups are not acknowledged`)
  } finally {
    mux.close()
    await link.close()
  }
}
