/** One action on the chosen runs: a question with their number, then what came of each. */
import { useState } from 'react'
import { Link } from 'wouter'
import { atOnce } from '../../api/at-once'
import { sentenceOf } from '../../api/client'
import { Button } from '../../ui/button'
import { Dialog } from '../../ui/dialog'
import { Id } from '../../ui/id'
import { cancelRun, runAgain } from './actions'
import type { Run } from './run-data'

export type Action = 'cancel' | 'again'

interface Result {
  run: Run
  made: Run | null
  error: unknown
}

const QUESTIONS = {
  cancel: {
    title: (runs: string) => `Cancel ${runs}?`,
    note: 'A run that ends before its cancel arrives stays as it ended. What a run has stored is kept.',
    button: 'Cancel',
    done: 'cancelled',
  },
  again: {
    title: (runs: string) => `Run ${runs} again?`,
    note:
      'A new run for each, with the same input, assistant, config, context and webhook: on the same thread, after what the ' +
      'thread holds now, or without a thread as before.',
    button: 'Run',
    done: 'run again',
  },
} as const

const THREADS_AT_ONCE = 4

export const countText = (count: number): string => `${count} ${count === 1 ? 'run' : 'runs'}`

interface BulkProps {
  action: Action
  runs: readonly Run[]
  /** Called when something may have changed, too. */
  close: () => void
}

export function Bulk({ action, runs, close }: BulkProps) {
  const [results, setResults] = useState<Result[]>([])
  const [state, setState] = useState<'asked' | 'busy' | 'done'>('asked')
  const { title, note, button, done } = QUESTIONS[action]
  const failed = results.filter(({ error }) => error !== null).length
  const start = async () => {
    setState('busy')
    await atOnce(THREADS_AT_ONCE, byThread(runs), async group => {
      for (const run of group) {
        const result = await resultOf(action, run)
        setResults(last => [...last, result])
      }
    })
    setState('done')
  }
  return (
    <Dialog label={title(countText(runs.length))} close={close} stays={state === 'busy'}>
      <h2>{state === 'asked' ? title(countText(runs.length)) : `${results.length} of ${countText(runs.length)}`}</h2>
      {state === 'asked' && <p>{note}</p>}
      {state !== 'asked' && (
        <p role="status">
          {results.length - failed} {done}
          {failed > 0 && `, ${failed} not`}
          {state === 'busy' && '…'}
        </p>
      )}
      {results.length > 0 && (
        <ul className="bulk-results" aria-label="Results">
          {results.map(result => (
            <ResultRow key={result.run.run_id} of={result} done={done} />
          ))}
        </ul>
      )}
      <div className="actions">
        {state === 'asked' && (
          <Button kind={action === 'cancel' ? 'danger' : 'primary'} onClick={start}>
            {button} {countText(runs.length)}
          </Button>
        )}
        <Button disabled={state === 'busy'} onClick={close}>
          {state === 'asked' ? 'Back' : 'Close'}
        </Button>
      </div>
    </Dialog>
  )
}

const ResultRow = ({ of: { run, made, error }, done }: { of: Result; done: string }) => (
  <li>
    <Id of={run.run_id} />
    {error !== null ? (
      <span className="bad">{sentenceOf(error)}</span>
    ) : made === null ? (
      <span>{done}</span>
    ) : (
      <span>
        as{' '}
        <Link href={`/runs/${made.thread_id}/${made.run_id}`}>
          <Id of={made.run_id} />
        </Link>
      </span>
    )}
  </li>
)

async function resultOf(action: Action, run: Run): Promise<Result> {
  try {
    if (action === 'again') return { run, made: await runAgain(run), error: null }
    await cancelRun(run)
    return { run, made: null, error: null }
  } catch (error) {
    return { run, made: null, error }
  }
}

/** Each thread gets its runs one after the other, the oldest first. */
function byThread(runs: readonly Run[]): Run[][] {
  const groups = new Map<string, Run[]>()
  for (const run of runs.toReversed()) {
    const group = groups.get(run.thread_id)
    if (group === undefined) groups.set(run.thread_id, [run])
    else group.push(run)
  }
  return [...groups.values()]
}
