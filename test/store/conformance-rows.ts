/** Rows with plain values, for the tests of the store: say only what the test is about. */
import { randomUUID } from 'node:crypto'
import type { AssistantRow } from '../../store/rows/assistants.js'
import type { BlobRow, CheckpointRow, WriteRow } from '../../store/rows/checkpoints.js'
import type { RecordRow } from '../../store/rows/records.js'
import type { RunRow } from '../../store/rows/runs.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import type { Step } from '../../store/steps.js'
import { newAssistant } from '../../workers/resources/rows/assistant.js'
import { newRecord } from '../../workers/resources/rows/record.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { newRun } from '../../workers/resources/runs/prepare.js'

export const APP = 'built-in'
export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const TIMES = { created_at: 1_700_000_000_001, updated_at: 1_700_000_000_002 }

export const assistant = (set: Partial<AssistantRow> = {}): AssistantRow =>
  newAssistant({ app: APP, assistant_id: randomUUID(), graph_id: 'agent', name: 'agent', ...TIMES, ...set })

export const thread = (set: Partial<ThreadRow> = {}): ThreadRow => ({
  ...newThread({ app: APP, thread_id: randomUUID() }),
  ...TIMES,
  state_updated_at: 1_700_000_000_003,
  ...set,
})

const PLAIN_RUN = { mode: 'stream', brings: null, pool: 'default', temporary: false } as const

/** A run that was accepted. */
export const run = (thread_id: string, set: Partial<RunRow> = {}): RunRow => {
  const given = { ...PLAIN_RUN, app: APP, run_id: randomUUID(), thread_id }
  const body = { assistant_id: 'agent', stream_resumable: true }
  return {
    ...newRun(body, assistant(), given),
    ...TIMES,
    status: 'pending',
    metadata: '{}',
    kwargs: '{"input":null}',
    ...set,
  }
}

export const record = (set: Partial<RecordRow> = {}): RecordRow =>
  newRecord('cron', randomUUID(), { body: '{}', ...TIMES, ...set })

export const checkpoint = (id: string, seq: number, set: Partial<CheckpointRow> = {}): CheckpointRow => {
  const row = {
    ns: '',
    id,
    parent: null,
    seq,
    type: 'json',
    meta_type: 'json',
    refs: {},
    value: bytes(`value of ${id}`),
    metadata: bytes(`metadata of ${id}`),
    ...set,
  }
  return { ...row, size: row.value.length, meta_size: row.metadata.length }
}

export const blob = (channel: string, version: string, value: Uint8Array, ns = ''): BlobRow => ({
  ns,
  channel,
  version,
  type: 'json',
  value,
  size: value.length,
})

export const write = (checkpoint_id: string, task_id: string, idx: number, text: string, ns = ''): WriteRow => ({
  ns,
  checkpoint_id,
  task_id,
  idx,
  channel: 'messages',
  type: 'json',
  value: bytes(text),
  size: bytes(text).length,
})

/** A save of attempt 1 without a run. */
export const save = (
  thread_id: string,
  rows: { checkpoints?: CheckpointRow[]; blobs?: BlobRow[]; writes?: WriteRow[] },
): Step => ({
  step: 'checkpoints.insert',
  thread_id,
  run_id: null,
  attempt: 1,
  checkpoints: rows.checkpoints ?? [],
  blobs: rows.blobs ?? [],
  writes: rows.writes ?? [],
})
