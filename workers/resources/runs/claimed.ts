/** The writes of a claim and the answer to its holder, for claims from the work queue and for those with the create. */
import { v4 } from 'uuid'
import type { ClaimedLease } from '../../../schemas/calls.js'
import { PER_CLAIM } from '../../../schemas/checkpoints.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { packText } from '../../../schemas/packed.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import type { Tuple } from '../../../store/rows/checkpoints.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { packTuples } from '../rows/checkpoint.js'
import { baseText } from '../rows/thread-status.js'
import { AUTH_PREFIX, readReference, withoutAuth } from './payload.js'

type ThreadPart = Pick<
  ThreadRow,
  'active' | 'queue' | 'claim_no' | 'latest_checkpoint_id' | 'settled' | 'interrupts' | 'error' | 'metadata'
>

export interface ClaimRows {
  lease: ClaimedLease
  claim_no: number
  /** The metadata of the thread, as JSON text: nodes see them below those of the run. */
  inherited: string
  thread: Pick<ThreadRow, 'active' | 'queue' | 'claim_no' | 'status'>
  run: Partial<RunRow>
}

/**
 * The columns of both rows after the next attempt of `run` was claimed for `worker` of `pool`. `thread`: the row before.
 * The run is from then on one of that pool: its signals go there.
 */
export function claimRows(
  run: RunRow,
  thread: ThreadPart,
  { worker, pool }: { worker: string; pool: string },
  now = clock.now(),
): ClaimRows {
  const attempt = run.attempt + 1
  const token = v4()
  const claim_no = thread.claim_no + 1
  const { charges = 0 } = thread.queue.find(one => one.run_id === run.run_id) ?? {}
  const { latest_checkpoint_id: checkpoint_id } = thread
  return {
    lease: leaseOf(run, attempt, token),
    claim_no,
    // The thread of a temporary run has none but those of the run.
    inherited: run.temporary ? '{}' : metadataWithoutAuth(thread.metadata),
    thread: {
      active: { run_id: run.run_id, attempt, token, charges, checkpoint_id, pool },
      queue: thread.queue.filter(one => one.run_id !== run.run_id),
      claim_no,
      status: 'busy',
    },
    run: {
      status: 'running',
      attempt,
      token,
      worker,
      pool,
      started_at: run.started_at ?? now,
      updated_at: now,
      claim_no,
      base: run.base ?? baseText(thread),
    },
  }
}

/** Parses only what has such a key: nearly no thread does. */
const metadataWithoutAuth = (metadata: string): string =>
  metadata.includes(AUTH_PREFIX) ? jsonText(withoutAuth(parseJson(metadata))) : metadata

const leaseOf = (run: RunRow, attempt: number, token: string): ClaimedLease => ({
  run_id: run.run_id,
  thread_id: run.thread_id,
  attempt,
  token,
  graph_id: run.graph_id,
  resumable: run.resumable,
  temporary: run.temporary,
  resumable_until_id: run.resumable_until_id,
  ...(run.traceparent === null ? {} : { traceparent: run.traceparent }),
})

/** The newest checkpoint that the run continues; null: it begins with none. */
export const checkpointFor = (
  { store }: Deps,
  { temporary, thread_id }: RunRow,
  { latest_checkpoint_id }: ThreadPart,
) =>
  temporary || latest_checkpoint_id === null
    ? null
    : store.checkpoints.get({ thread_id, checkpoint_id: latest_checkpoint_id })

/** The body of a start frame: StartHead (schemas/host.ts), and the newest checkpoint. `run.kwargs` are whole. */
export const startBody = (
  { encryption }: Pick<Deps, 'encryption'>,
  run: RunRow,
  { lease, claim_no, inherited }: ClaimRows,
  tuple: Tuple | null,
): Uint8Array =>
  packText(
    startText(run, lease.attempt, claim_no, inherited, encryption.isOn()),
    tuple === null ? [] : [packTuples([tuple])],
  )

/** Stored JSON is inserted as it is. */
const startText = (run: RunRow, attempt: number, claim_no: number, inherited: string, sealed: boolean): string =>
  `{"run_id":"${run.run_id}","thread_id":"${run.thread_id}","graph_id":${jsonText(run.graph_id)},"attempt":${attempt},"first_id":${firstIdOf(attempt)},` +
  `"first_seq":${claim_no * PER_CLAIM},"inherited":${inherited},"metadata":${run.metadata},"kwargs":${run.kwargs},"want_values":${run.mode !== 'stream' || run.temporary},"events":${run.mode === 'events'}${run.auth_user ? `,"user":${run.auth_user}` : ''}${sealed ? ',"sealed":true' : ''}}`

/** The whole kwargs; null when the assistant that they refer to was deleted. */
export async function findKwargs({ store }: Deps, run: RunRow): Promise<string | null> {
  const reference = readReference(run)
  if (reference === null) return run.kwargs
  const { app, assistant_id } = run
  const { version, created_at } = reference
  const current = await store.assistants.get(app, assistant_id)
  // Another one may have been made with the same id.
  if (current === null || current.created_at !== created_at) return null
  const found = current.version === version ? current : await store.assistants.version(app, assistant_id, version)
  return found && reference.whole(found)
}
