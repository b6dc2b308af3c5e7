/** Functions of both savers: the checkpoint that a config names, the numbers of writes, new versions. */
import type { RunnableConfig } from '@langchain/core/runnables'

export type Write = [task_id: string, channel: string, value: unknown]

export interface Place {
  thread_id: string
  ns: string
  id: string | null
}

/** Throws if the config names no thread: every checkpoint belongs to a thread. */
export function placeOf(config: RunnableConfig): Place {
  const { thread_id, checkpoint_ns, checkpoint_id, thread_ts } = config.configurable ?? {}
  if (thread_id === undefined || thread_id === null)
    throw new Error('A checkpoint needs "thread_id" in the "configurable" of its config.')
  return { thread_id: String(thread_id), ns: checkpoint_ns ?? '', id: checkpoint_id || thread_ts || null }
}

/**
 * Special channels have fixed negative positions and are replaced; the other writes are numbered, and the first write
 * of a position stays.
 */
const SPECIAL: { [channel: string]: number } = {
  __error__: -1,
  __scheduled__: -2,
  __interrupt__: -3,
  __resume__: -4,
}
export const writeIndex = (channel: string, place: number): number => SPECIAL[channel] ?? place

/**
 * Versions are ordered strings with a random tail. The library's `current + 1` gives two forks the same version with
 * different content, and a blob is stored once per version.
 */
export function nextVersion(current: unknown): string {
  const last = typeof current === 'number' ? current : Number.parseInt(String(current ?? '0'), 10) || 0
  const tail = Math.floor(Math.random() * 2 ** 48).toString(36)
  return `${String(Math.floor(last) + 1).padStart(10, '0')}.${tail.padStart(10, '0')}`
}
