/** Threads and their state on the wire (API: threads-and-runs 3, 5, 6; contract "Thread state"). */
import typia, { type tags } from 'typia'
import type { Json, JsonObject, Uuid } from './assistants.js'

export type ThreadStatus = 'idle' | 'busy' | 'interrupted' | 'error'

export interface ThreadTtl {
  ttl: number & tags.Minimum<0>
  strategy?: 'delete' | 'keep_latest' | null
}

export interface ThreadCreate {
  thread_id?: Uuid | null
  metadata?: JsonObject | null
  if_exists?: 'raise' | 'do_nothing' | null
  ttl?: ThreadTtl | number | null
  supersteps?: Json[] | null
}

export interface Thread {
  thread_id: string
  created_at: string
  updated_at: string
  state_updated_at: string
  metadata: JsonObject
  config: JsonObject
  status: ThreadStatus
  values: Json
  interrupts: { [task_id: string]: Interrupt[] }
  error?: Json
}

export interface Interrupt {
  id: string
  value: Json
}

export interface Checkpoint {
  thread_id?: string
  checkpoint_ns?: string | null
  checkpoint_id?: string | null
  checkpoint_map?: JsonObject | null
}

export interface Task {
  id: string
  name: string
  path: Json[]
  error: string | null
  interrupts: Interrupt[]
  checkpoint: Checkpoint | null
  state: ThreadState | null
  result: Json
}

export interface ThreadState {
  values: Json
  next: string[]
  tasks: Task[]
  checkpoint: Checkpoint | null
  parent_checkpoint: Checkpoint | null
  metadata: JsonObject
  created_at: string | null
  interrupts: Interrupt[]
}

export const validateThreadCreate = typia.createValidate<ThreadCreate>()
