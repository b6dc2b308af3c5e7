/** The actions on runs: cancel, and run again. */
import { ask } from '../../api/client'
import { type Run, type WholeRun, wholeRun } from './run-data'

export const cancelRun = ({ thread_id, run_id }: Run): Promise<unknown> =>
  ask(`/threads/${thread_id}/runs/${run_id}/cancel`, { method: 'POST' })

/** A new run with the request of this one: on its thread, or without a thread. */
export async function runAgain({ thread_id, run_id }: Run): Promise<Run> {
  const run = await wholeRun(thread_id, run_id)
  return ask<Run>(run.kwargs.temporary ? '/runs' : `/threads/${thread_id}/runs`, {
    method: 'POST',
    body: requestOf(run),
  })
}

/** Members of metadata and of configurable that the server gives to each run. */
const OWN = ['run_id', 'thread_id', 'graph_id', 'assistant_id', 'created_by', 'cron_id', 'cron_late']

const withoutOwn = (members: { [name: string]: unknown } = {}) =>
  Object.fromEntries(Object.entries(members).filter(([name]) => !OWN.includes(name)))

function requestOf({ assistant_id, metadata, multitask_strategy, kwargs }: WholeRun) {
  const { input, command, config, context, stream_mode, stream_subgraphs, resumable, durability } = kwargs
  const { interrupt_before, interrupt_after, webhook, strict_resume = false } = kwargs
  const { metadata: _, configurable, ...others } = config
  const isEmpty = context === null || Object.keys(context as object).length === 0
  return {
    assistant_id,
    input,
    command,
    metadata: withoutOwn(metadata),
    config: { ...others, configurable: withoutOwn(configurable) },
    ...(isEmpty ? {} : { context }),
    stream_mode,
    stream_subgraphs,
    stream_resumable: resumable,
    durability,
    interrupt_before,
    interrupt_after,
    webhook,
    multitask_strategy,
    strict_resume,
  }
}
