/** States of threads as the public clients return them, with the members that tests read. */
import type { Client } from '@langchain/langgraph-sdk'

export interface ThreadState {
  values: { numbers?: number[]; [name: string]: unknown }
  next: string[]
  tasks: {
    name: string
    checkpoint: { checkpoint_ns: string } | null
    state: ThreadState | null
    interrupts: unknown[]
  }[]
  checkpoint: { thread_id: string; checkpoint_ns: string; checkpoint_id: string }
  parent_checkpoint: { checkpoint_id: string } | null
  metadata: { [name: string]: unknown }
}

/** All states of a thread, newest first, unless the query says less. */
export const historyOf =
  ({ threads }: Client) =>
  async (thread_id: string, query: object = {}) =>
    (await threads.getHistory(thread_id, { limit: 1_000, ...query } as never)) as never as ThreadState[]

/** The only run of the thread. */
export async function firstRun(url: string, thread_id: string): Promise<string> {
  const runs = (await (await fetch(`${url}/threads/${thread_id}/runs`)).json()) as { run_id: string }[]
  return runs[0]!.run_id
}
