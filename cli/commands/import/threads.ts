/** Brings one thread: its metadata, and its history as far as the API of the source shows it. */
import type { Superstep, ThreadState } from '../../../schemas/threads.js'
import { type Client, Refused } from '../client.js'
import { isSame, lineage, superstepsOf, valuesOnly } from './history.js'
import type { Journal } from './journal.js'

export interface SourceThread {
  thread_id: string
  metadata: { graph_id?: string; assistant_id?: string } | null
  ttl?: { ttl?: number; strategy?: 'delete' | 'keep_latest' } | null
}

const PAGE = 100

/** The note says what was lost; undefined: nothing that the API shows. Throws a Refused. */
export async function bringThread(
  from: Client,
  to: Client,
  { thread_id, metadata, ttl }: SourceThread,
  { journal, withHistory }: { journal: Journal; withHistory: boolean },
): Promise<string | undefined> {
  const path = `/threads/${thread_id}`
  const isHalf = journal.isHalf('threads', thread_id)
  journal.begin('threads', thread_id)
  if (isHalf) await remove(to, path)
  const states = await historyOf(from, path, withHistory ? Number.POSITIVE_INFINITY : 1)
  const create = (supersteps: Superstep[]) => {
    const body = {
      thread_id,
      metadata: metadata ?? {},
      ...(ttl?.ttl ? { ttl: { ttl: ttl.ttl, strategy: ttl.strategy ?? 'delete' } } : {}),
      ...(supersteps.length > 0 ? { supersteps } : {}),
    }
    return to.ask('POST', '/threads', { body, patient: true })
  }
  const [newest] = states
  if (newest?.checkpoint == null) {
    await create([])
    return undefined
  }
  const line = lineage(states)
  const steps = withHistory ? superstepsOf(line) : null
  if (steps !== null) {
    try {
      await create(steps)
      const here = await to.ask<ThreadState>('GET', `${path}/state`, { patient: true })
      if (isSame(newest, here)) return states.length > line.length ? 'without branches' : undefined
      await remove(to, path)
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 409) throw error
    }
  }
  await create(valuesOnly(newest))
  const here = await to.ask<ThreadState>('GET', `${path}/state`, { patient: true })
  if (!isSame({ ...newest, next: [] }, here)) {
    await remove(to, path)
    throw new Refused('the graph here does not reproduce its state', 422)
  }
  if (newest.next.length > 0) return 'newest values only; it was to continue, and starts anew'
  return 'newest values only'
}

async function remove(to: Client, path: string): Promise<void> {
  const answer = await to.send('DELETE', path, { patient: true })
  await answer.body?.cancel()
}

/** Newest first. */
async function historyOf(from: Client, path: string, most: number): Promise<ThreadState[]> {
  const states: ThreadState[] = []
  for (;;) {
    const limit = Math.min(PAGE, most - states.length)
    const before = states.at(-1)?.checkpoint
    const body = { limit, ...(before ? { before } : {}) }
    const page = await from.ask<ThreadState[]>('POST', `${path}/history`, { body, patient: true })
    states.push(...page)
    if (page.length < limit || states.length >= most) return states
  }
}
