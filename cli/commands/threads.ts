/** `weft threads`: lists threads, prints the state of one, deletes some. */
import { openProgress } from '../terminal/progress.js'
import { printJson, printTable } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type ClientFlags, openClient } from './client.js'
import { timeText } from './runs.js'

interface Thread {
  thread_id: string
  status: string
  updated_at: string
  metadata: { graph_id?: string }
}

interface ListFlags extends ClientFlags {
  status?: string
  metadata?: string
  limit: number
}

const FIELDS = ['thread_id', 'status', 'metadata', 'created_at', 'updated_at']

export async function listThreads({ status, metadata, limit, ...flags }: ListFlags): Promise<void> {
  const body = {
    ...(status === undefined ? {} : { status }),
    ...(metadata === undefined ? {} : { metadata: objectOf(metadata) }),
    limit,
    sort_by: 'updated_at',
    sort_order: 'desc',
    select: FIELDS,
  }
  const threads = await openClient(flags).ask<Thread[]>('POST', '/threads/search', { body })
  if (flags.json) return printJson(threads)
  printTable(
    ['thread', 'status', 'graph', 'changed'],
    threads.map(thread => [
      thread.thread_id,
      thread.status,
      thread.metadata.graph_id ?? '',
      timeText(thread.updated_at),
    ]),
  )
}

function objectOf(text: string): object {
  try {
    const value = JSON.parse(text) as unknown
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Said below.
  }
  throw new UserError(`--metadata must be a JSON object as '{"user":"ada"}', not ${text}`, 2)
}

/** Always JSON: a state has no other form. */
export async function getThread(thread_id: string, flags: ClientFlags): Promise<void> {
  printJson(await openClient(flags).ask('GET', `/threads/${encodeURIComponent(thread_id)}/state`))
}

export async function deleteThreads(thread_ids: string[], flags: ClientFlags): Promise<void> {
  const client = openClient(flags)
  const progress = openProgress('delete')
  try {
    for (const [done, thread_id] of thread_ids.entries()) {
      await client.ask('DELETE', `/threads/${encodeURIComponent(thread_id)}`).catch((error: Error) => {
        if (!(error instanceof UserError) || thread_ids.length === 1) throw error
        const before = done === 0 ? 'nothing was deleted' : `${thread_ids.slice(0, done).join(', ')} was deleted`
        throw new UserError(`${thread_id}: ${error.message}; ${before}`, error.exitCode)
      })
      progress.update(done + 1, thread_ids.length, thread_id)
    }
  } finally {
    progress.stop()
  }
  if (flags.json) printJson({ deleted: thread_ids })
  else process.stdout.write(`deleted ${thread_ids.join(', ')}\n`)
}
