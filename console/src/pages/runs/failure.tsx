/** Why a run failed or was stopped: what a person looks for first. */
import { CopyButton } from '../../ui/copy'
import { Icon } from '../../ui/icon'
import { errorTextOf, type Place, type WholeRun } from './run-data'
import { failedNodeOf, type Spans } from './spans'
import type { Step } from './steps'

interface FailureProps {
  run: WholeRun
  steps: readonly Step[]
  /** Null: they are not known yet. */
  spans: Spans | null
}

export function Failure({ run: { error, cancel_reason, status }, steps, spans }: FailureProps) {
  if (!error)
    return cancel_reason ? (
      <p className="card run-stopped">
        <Icon name="stop" />
        {cancel_reason}
      </p>
    ) : null
  const text = errorTextOf(error)
  const [first = '', ...rest] = text.split('\n')
  const failed = steps.findLast(step => step.error !== null)
  // A run without checkpoints has spans.
  const node = failed?.node ?? (spans && failedNodeOf(spans))
  return (
    <section className="card run-failure" aria-label="Error">
      <div className="run-failure-head">
        <Icon name="warn" />
        <h2 className="mono">{first}</h2>
        <CopyButton text={text} label="Copy the error" />
      </div>
      {node !== null && (
        <p>
          In the node <strong>{node}</strong>
          {failed !== undefined && failed.step !== null && `, step ${failed.step}`}.
        </p>
      )}
      {error.at !== undefined && <Where at={error.at} />}
      {status === 'timeout' && <p>The run reached its time limit.</p>}
      {rest.length > 0 && <pre>{rest.join('\n')}</pre>}
      {cancel_reason && <p>{cancel_reason}</p>}
    </section>
  )
}

/** Where the code of the application failed, as editors open it. */
function Where({ at: { file, line, function: name } }: { at: Place }) {
  const place = `${file}:${line}`
  return (
    <p className="run-failure-place">
      At <span className="mono">{place}</span>
      {name !== null && (
        <>
          in <span className="mono">{name}</span>
        </>
      )}
      <CopyButton text={place} label="Copy the file and line" />
    </p>
  )
}
