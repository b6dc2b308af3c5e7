/**
 * The runs of a stream over a thread (docs/spec/streams.md#thread-streams). Claims order them: a reader that knows
 * the last claim it has seen misses none.
 */
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import { isTerminal } from '../../../schemas/runs.js'
import { claimOf, type Follow, type Followed, idBefore, validateFollow } from '../../../schemas/thread-stream.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import { accessOf, sees } from '../access.js'
import { appOf } from '../apps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { requireThread } from '../rows/thread.js'
import { firstEligible } from '../rows/thread-status.js'
import { followedRun } from '../runs/view.js'
import { refreshState } from '../state/kept-state.js'

const PAGE = 200

export const threadStreams = (deps: Deps) => ({
  follow: jsonHandler<Follow>(validateFollow, async (body, { head }) => {
    const thread_id = head.params?.thread_id?.toLowerCase() ?? ''
    const access = accessOf(head, 'threads:read')
    const thread = await deps.store.threads.get(appOf(head), thread_id)
    if (thread !== null && !thread.temporary && sees(access, thread.metadata))
      return { body: JSON.stringify(await listFollowed(deps, thread, body)) }
    if (thread === null && body.may_miss)
      return {
        body: JSON.stringify({
          exists: false,
          app: appOf(head),
          known: 0,
          runs: [],
          more: false,
          gone: false,
        } satisfies Followed),
      }
    throw fail('not_found', `Thread with ID ${thread_id} not found`)
  }),
  /** The state after a run, as one event (docs/spec/streams.md#thread-streams). */
  final_state: bytesHandler(async (_, { head }) => {
    const found = await requireThread(deps.store, accessOf(head, 'threads:read'), head.params?.thread_id ?? '')
    const { row, state } = await refreshState(deps, found, await deps.store.threads.state(found.thread_id))
    const values = state?.values ? Buffer.from(state.values).toString() : 'null'
    return {
      body:
        `{"thread_id":"${row.thread_id}","status":"${row.status}","values":${values},` +
        `"interrupts":${row.interrupts},"state_updated_at":"${time(row.state_updated_at)}"}`,
    }
  }),
})

async function listFollowed(deps: Deps, thread: ThreadRow, { from }: Follow): Promise<Followed> {
  const first = await firstClaim(deps, thread, from)
  const rows = first === null ? [] : await deps.store.runs.claimed(thread.thread_id, first, PAGE)
  const runs = rows.filter(run => isKept(deps, run)).map(followedRun)
  const more = rows.length === PAGE
  // A claim that is not in its run row yet will be announced.
  const known = Math.max(rows.at(-1)?.claim_no ?? 0, first === null ? thread.claim_no : first - 1, 0)
  const gone =
    typeof from === 'number' &&
    rows.some(run => !isKept(deps, run) && idBefore(from, claimPlace(run)) < (run.last_event_id ?? 0))
  return { exists: true, app: thread.app, known, runs, more, gone }
}

/** The first requested claim; null: none of the existing ones. */
async function firstClaim({ store }: Deps, thread: ThreadRow, from: Follow['from']): Promise<number | null> {
  const { active, queue, claim_no } = thread
  if (from === 'start') return 1
  if (typeof from === 'number') return claimOf(from)
  if (active !== null) {
    const [run] = await store.runs.summary([active.run_id])
    return run?.token === active.token ? run.claim_no : claim_no
  }
  return from === 'now' || firstEligible(queue, clock.now()) !== null ? null : claim_no
}

const claimPlace = ({ claim_no, attempt }: RunSummary) => ({ claim_no: claim_no ?? 0, attempt })

/** Whether its events are still available. */
function isKept({ config }: Deps, { status, ended_at, resumable }: RunSummary): boolean {
  if (!isTerminal(status) || ended_at === null) return true
  return ended_at > clock.now() - (resumable ? config.resumable_ttl_ms : config.keep_ended_ms)
}
