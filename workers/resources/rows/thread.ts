/** The row of a thread: as it is first inserted, and as clients may read it. */
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { ThreadRow, Ttl } from '../../../store/rows/threads.js'
import { type Access, sees } from '../access.js'
import { clock } from '../clock.js'
import { ttlFields } from './thread-ttl.js'

/** The thread; throws not_found when it is unknown, not visible, or the hidden thread of a stateless run. */
export async function requireThread(store: Store, access: Access, thread_id: string): Promise<ThreadRow> {
  const row = await store.threads.get(access.app, thread_id.toLowerCase())
  if (row === null || row.temporary || !sees(access, row.metadata))
    throw fail('not_found', `Thread with ID ${thread_id} not found`)
  return row
}

interface NewThread {
  app: string
  thread_id: string
  /** JSON text. */
  metadata?: string
  temporary?: boolean
  ttl?: Ttl | null
}

/** A thread row as it is first inserted. */
export function newThread({ app, thread_id, metadata = '{}', temporary = false, ttl = null }: NewThread): ThreadRow {
  const now = clock.now()
  return {
    app,
    thread_id,
    created_at: now,
    updated_at: now,
    state_updated_at: now,
    metadata,
    config: '{}',
    status: 'idle',
    settled: 'idle',
    interrupts: '{}',
    left_by: null,
    error: null,
    temporary,
    rev: 0,
    active: null,
    queue: [],
    next_position: 0,
    claim_no: 0,
    latest_checkpoint_id: null,
    ...ttlFields(ttl, now),
  }
}

/** The thread id in the path of a call. */
export const threadIdOf = ({ params }: CallHead): string => params?.thread_id ?? ''
