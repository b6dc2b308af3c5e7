/** The checkpoints of a thread. Their values may be large: those of one are loaded when it is shown. */
import type { ThreadState } from '@langchain/langgraph-sdk'
import { ask } from '../../api/client'
import { type Loaded, useLoad } from '../../api/load'

export type State = Omit<ThreadState<unknown>, 'values'>

const LIMIT = 200
const FIELDS = ['checkpoint', 'parent_checkpoint', 'metadata', 'next', 'tasks', 'created_at']

/** The newest first. */
export const loadHistory = (threadId: string, signal: AbortSignal): Promise<State[]> =>
  ask(`/threads/${threadId}/history`, { method: 'POST', body: { limit: LIMIT, select: FIELDS }, signal })

interface Values {
  values: unknown
}

/** Nothing has no values. */
export const useValues = (threadId: string, state: State | undefined): Loaded<Values> =>
  useLoad(`values ${threadId} ${state === undefined ? '' : idOf(state)}`, signal =>
    state === undefined
      ? Promise.resolve({ values: {} })
      : ask<Values>(`/threads/${threadId}/state/checkpoint`, {
          method: 'POST',
          body: { checkpoint: state.checkpoint, select: ['values'] },
          signal,
        }),
  )

export const idOf = ({ checkpoint }: State): string => checkpoint.checkpoint_id ?? ''
export const parentOf = ({ parent_checkpoint }: State): string | null => parent_checkpoint?.checkpoint_id ?? null

/** "step 3", or what the state is named by its source. */
export function nameOf({ metadata }: State): string {
  const { step, source } = (metadata ?? {}) as { step?: number; source?: string }
  return `${step === undefined ? 'Checkpoint' : `Step ${step}`}${source && source !== 'loop' ? ` · ${source}` : ''}`
}
