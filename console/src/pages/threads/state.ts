/** The members of a state that the inspector reads. */
import type { ThreadState } from '@langchain/langgraph-sdk'

export type State = ThreadState<unknown>

export const idOf = ({ checkpoint }: State): string => checkpoint.checkpoint_id ?? ''
export const parentOf = ({ parent_checkpoint }: State): string | null => parent_checkpoint?.checkpoint_id ?? null

/** "step 3", or what the state is named by its source. */
export function nameOf({ metadata }: State): string {
  const { step, source } = (metadata ?? {}) as { step?: number; source?: string }
  return `${step === undefined ? 'Checkpoint' : `Step ${step}`}${source && source !== 'loop' ? ` · ${source}` : ''}`
}
