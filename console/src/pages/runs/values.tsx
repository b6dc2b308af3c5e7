/** The input and the output of a run. */
import { ask, client } from '../../api/client'
import { useLoad } from '../../api/load'
import { CopyButton } from '../../ui/copy'
import { Json } from '../../ui/json'
import { LoadedView } from '../../ui/notice'
import { hasEnded, type WholeRun } from './run-data'
import type { StepState } from './steps'

/** `end`: the newest checkpoint of the run; null: there is none. */
export function Values({ run, end }: { run: WholeRun; end: StepState | null }) {
  const { input, command } = run.kwargs
  return (
    <div className="two">
      <section className="card" aria-label="Input">
        <div className="state-head">
          <strong>{command === null ? 'Input' : 'Command'}</strong>
          <CopyButton text={JSON.stringify(command ?? input, null, 2)} label="Copy the input" />
        </div>
        <div className="state-body run-value">
          <Json value={command ?? input} open={3} />
        </div>
      </section>
      <section className="card" aria-label="Output">
        <div className="state-head">
          <strong>{hasEnded(run) ? 'Output' : 'State so far'}</strong>
        </div>
        <div className="state-body run-value">
          <Output run={run} end={end} />
        </div>
      </section>
    </div>
  )
}

function Output({ run, end }: { run: WholeRun; end: StepState | null }) {
  const { thread_id, run_id, kwargs } = run
  const id = end?.checkpoint.checkpoint_id
  const isKept = kwargs.temporary && hasEnded(run)
  const output = useLoad(`output ${run_id} ${id} ${isKept}`, async () => {
    if (id != null) return (await client.threads.getState<unknown>(thread_id, id)).values
    return isKept ? ask<unknown>(`/runs/${run_id}/join`) : null
  })
  return (
    <LoadedView of={output}>
      {values =>
        values === null ? (
          <p className="muted">
            {hasEnded(run) ? 'The run has stored no checkpoint.' : 'The run has stored no checkpoint yet.'}
          </p>
        ) : (
          <Json value={values} open={2} />
        )
      }
    </LoadedView>
  )
}
