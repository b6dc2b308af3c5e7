/** Brings one thread: its metadata, and its history as far as the source shows it. A thread is never refused for its state. */
import type { Superstep, ThreadState } from '../../../schemas/threads.js'
import { type Client, Refused } from '../client.js'
import { differences, functionOf, isSame, lineage, superstepsOf, valuesOnly } from './history.js'
import type { Journal } from './journal.js'
import type { Source, SourceThread } from './sources/source.js'

/** Statuses that refuse the body. Any other error concerns the server, and a later import tries the thread again. */
const UNFIT = [400, 413, 422]

/** The note says what was lost; undefined: nothing that the source shows. Throws a Refused. */
export async function bringThread(
  from: Source,
  to: Client,
  row: SourceThread,
  { journal, withHistory }: { journal: Journal; withHistory: boolean },
): Promise<string | undefined> {
  const { thread_id } = row
  const path = `/threads/${thread_id}`
  const isHalf = journal.isHalf('threads', thread_id)
  const { states, note } = await from.history(thread_id, withHistory ? Number.POSITIVE_INFINITY : 1)
  const [newest] = states
  const hasState = newest?.checkpoint != null
  if (hasState && !row.metadata?.graph_id && !row.metadata?.assistant_id)
    throw new Refused('it does not say which graph it belongs to: name one with --graph', 422)
  journal.begin('threads', thread_id)
  if (isHalf) await remove(to, path)
  if (!hasState) {
    await create(to, row, [])
    return note
  }
  const lost = await bringStates(to, row, states, withHistory)
  return [lost, note].filter(Boolean).join('; ') || undefined
}

async function bringStates(
  to: Client,
  row: SourceThread,
  states: readonly ThreadState[],
  withHistory: boolean,
): Promise<string | undefined> {
  const path = `/threads/${row.thread_id}`
  const newest = states[0]!
  const line = lineage(states)
  const body = functionOf(line)
  const steps = withHistory ? superstepsOf(line) : null
  const stateHere = () => to.ask<ThreadState>('GET', `${path}/state`, { patient: true })
  if (steps !== null && (await tried(create(to, row, steps))) === null) {
    if (isSame(newest, await stateHere()))
      return noteOf(states.length > line.length && 'without branches', body && 'without the inputs of its function')
    await remove(to, path)
  }
  const left = noteOf('newest values only', newest.next.length > 0 && 'it was to continue, and starts anew')
  const why = await tried(create(to, row, valuesOnly(newest, body)))
  if (why !== null) {
    await create(to, row, [])
    return `metadata only, because the graph here does not take its values: ${why}`
  }
  const other = differences(newest.values, (await stateHere()).values)
  return noteOf(left, other.length > 0 && `the graph here changes ${other.join(', ')}`)
}

function create(to: Client, { thread_id, metadata, ttl }: SourceThread, supersteps: Superstep[]) {
  const body = {
    thread_id,
    metadata: metadata ?? {},
    ...(ttl?.ttl ? { ttl: { ttl: ttl.ttl, strategy: ttl.strategy ?? 'delete' } } : {}),
    ...(supersteps.length > 0 ? { supersteps } : {}),
  }
  return to.ask('POST', '/threads', { body, patient: true })
}

/** Null: it worked; else why the graph does not take it. */
async function tried(work: Promise<unknown>): Promise<string | null> {
  try {
    await work
    return null
  } catch (error) {
    if (!(error instanceof Refused) || !UNFIT.includes(error.status)) throw error
    return error.message
  }
}

const noteOf = (...parts: (string | false | null | undefined)[]): string | undefined =>
  parts.filter(Boolean).join('; ') || undefined

async function remove(to: Client, path: string): Promise<void> {
  const answer = await to.send('DELETE', path, { patient: true })
  await answer.body?.cancel()
}
