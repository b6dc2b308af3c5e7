/** Why a run failed or was stopped: what a person looks for first. */
import { CopyButton } from '../../ui/copy'
import { Icon } from '../../ui/icon'
import { errorTextOf, type Place, type WholeRun } from './run-data'
import type { Step } from './steps'

export function Failure({ run: { error, cancel_reason, status }, steps }: { run: WholeRun; steps: readonly Step[] }) {
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
  return (
    <section className="card run-failure" aria-label="Error">
      <div className="run-failure-head">
        <Icon name="warn" />
        <h2 className="mono">{first}</h2>
        <CopyButton text={text} label="Copy the error" />
      </div>
      {failed !== undefined && (
        <p>
          In the node <strong>{failed.node}</strong>
          {failed.step !== null && `, step ${failed.step}`}.
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
          {' '}
          in <span className="mono">{name}</span>
        </>
      )}
      <CopyButton text={place} label="Copy the file and line" />
    </p>
  )
}
