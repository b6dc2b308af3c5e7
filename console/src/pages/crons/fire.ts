/** Starts the run of a cron out of its turn, in the name of the person who asks for it. */
import type { Cron } from '@langchain/langgraph-sdk'
import { ask } from '../../api/client'

interface Started {
  run_id: string
  /** Null: a run whose thread is removed with it. */
  thread_id: string | null
}

export async function fireNow({ assistant_id, thread_id, on_run_completed, payload }: Cron): Promise<Started> {
  const { schedule: _, ...run } = payload as { [name: string]: unknown }
  const keeps = on_run_completed === 'keep' ? { on_completion: 'keep' } : {}
  const path = thread_id ? `/threads/${thread_id}/runs` : '/runs'
  const body = { ...run, assistant_id, ...(thread_id ? {} : keeps) }
  const started = await ask<{ run_id: string; thread_id: string }>(path, { method: 'POST', body })
  return { run_id: started.run_id, thread_id: thread_id || on_run_completed === 'keep' ? started.thread_id : null }
}
