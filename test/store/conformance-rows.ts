/** Rows with plain values, for the tests of the store: say only what the test is about. */
import { randomUUID } from 'node:crypto'
import type {
  AssistantRow,
  BlobRow,
  CheckpointRow,
  RecordRow,
  RunRow,
  Step,
  ThreadRow,
  WriteRow,
} from '../../store/port.js'

export const APP = 'built-in'
export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

export const assistant = (set: Partial<AssistantRow> = {}): AssistantRow => ({
  app: APP,
  assistant_id: randomUUID(),
  graph_id: 'agent',
  name: 'agent',
  description: null,
  config: '{}',
  context: '{}',
  metadata: '{}',
  version: 1,
  created_at: 1_700_000_000_001,
  updated_at: 1_700_000_000_002,
  ...set,
})

export const thread = (set: Partial<ThreadRow> = {}): ThreadRow => ({
  app: APP,
  thread_id: randomUUID(),
  created_at: 1_700_000_000_001,
  updated_at: 1_700_000_000_002,
  state_updated_at: 1_700_000_000_003,
  metadata: '{}',
  config: '{}',
  status: 'idle',
  settled: 'idle',
  interrupts: '{}',
  error: null,
  temporary: false,
  rev: 0,
  active: null,
  queue: [],
  next_position: 0,
  claim_no: 0,
  latest_checkpoint_id: null,
  ttl: null,
  expires_at: null,
  ...set,
})

export const run = (thread_id: string, set: Partial<RunRow> = {}): RunRow => ({
  app: APP,
  run_id: randomUUID(),
  thread_id,
  assistant_id: randomUUID(),
  graph_id: 'agent',
  pool: 'default',
  status: 'pending',
  created_at: 1_700_000_000_001,
  updated_at: 1_700_000_000_002,
  metadata: '{}',
  kwargs: '{"input":null}',
  multitask_strategy: 'enqueue',
  mode: 'stream',
  resumable: true,
  temporary: false,
  on_disconnect: 'continue',
  due_at: 0,
  attempt: 0,
  token: null,
  heartbeats: 0,
  worker: null,
  cancel: null,
  cancel_due_at: null,
  cancel_reason: null,
  joined_at: null,
  started_at: null,
  ended_at: null,
  last_event_id: null,
  claim_no: null,
  resumable_until_id: null,
  error: null,
  base: null,
  webhook: null,
  webhook_due_at: null,
  webhook_tries: 0,
  idempotency_id: null,
  result: null,
  auth_user: null,
  key_id: null,
  ...set,
})

export const record = (set: Partial<RecordRow> = {}): RecordRow => ({
  kind: 'cron',
  app: APP,
  id: randomUUID(),
  parent: '',
  name: null,
  rev: 0,
  body: '{}',
  keys: [],
  due_at: null,
  created_at: 1_700_000_000_001,
  updated_at: 1_700_000_000_002,
  ...set,
})

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
