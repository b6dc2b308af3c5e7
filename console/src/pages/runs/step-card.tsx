import { Icon } from '../../ui/icon'
import { Skeleton, Trouble } from '../../ui/notice'
import { durationText } from '../../ui/time'
import { useNow } from '../../ui/use-now'
import { hasEnded, type WholeRun } from './run-data'
import type { Step, Steps } from './steps'

interface StepCardProps {
  run: WholeRun
  steps: Steps
  isLoading: boolean
  error: unknown
}

const STATES = {
  done: ['good', 'done'],
  failed: ['bad', 'failed'],
  asks: ['wait', 'asks'],
  open: ['busy', 'running'],
} as const

/** The nodes of a run in the order in which they began. */
export function StepCard({ run, steps: { from, list, isCut }, isLoading, error }: StepCardProps) {
  const isOver = hasEnded(run)
  const now = useNow(isOver || list.length === 0 ? null : 1_000)
  const first = list.find(({ began }) => began !== null)?.began ?? 0
  const last = Math.max(first + 1, ...list.map(({ began, ended }) => ended ?? (isOver ? (began ?? 0) : now)))
  return (
    <section className="card" aria-label="Nodes">
      <div className="state-head">
        <strong>Nodes</strong>
        {list.length > 0 && (
          <span className="muted">
            {from === 'checkpoints' ? 'From the checkpoints of the run' : 'From the events of the run'}
            {isCut && `, the newest ${list.length}`}
          </span>
        )}
      </div>
      <Trouble error={error} />
      {list.length > 0 ? (
        <ol className="steps">
          {list.map(step => (
            <Row key={step.key} step={step} first={first} span={last - first} now={isOver ? null : now} />
          ))}
        </ol>
      ) : isLoading ? (
        <Skeleton />
      ) : (
        <p className="state-body muted">{reasonOf(run)}</p>
      )}
    </section>
  )
}

interface RowProps {
  step: Step
  /** When the first one began, and ms from then to the end of the last. */
  first: number
  span: number
  /** Null: the run has ended. */
  now: number | null
}

function Row({ step: { node, step, attempt, began, ended, error, state }, first, span, now }: RowProps) {
  const [tone, word] = state === 'open' && now === null ? (['quiet', 'not finished'] as const) : STATES[state]
  const end = ended ?? now
  const took = began === null || end === null ? null : end - began
  return (
    <li>
      <span className="step-no muted">{step ?? ''}</span>
      <strong>{node}</strong>
      {began !== null && took !== null && (
        <span className="step-bar" aria-hidden="true">
          <span
            className={tone}
            style={{ left: `${((began - first) / span) * 100}%`, width: `max(3px, ${(took / span) * 100}%)` }}
          />
        </span>
      )}
      <span className="step-took">{took === null ? '' : durationText(took)}</span>
      <span className={`status ${tone}`}>{word}</span>
      {attempt !== null && attempt > 1 && <span className="muted">attempt {attempt}</span>}
      {error !== null && (
        <p className="bad">
          <Icon name="warn" />
          {error}
        </p>
      )}
    </li>
  )
}

function reasonOf(run: WholeRun): string {
  if (!hasEnded(run)) return run.status === 'pending' ? 'The run waits for a graph worker.' : 'No node has ended yet.'
  if (run.kwargs.temporary) return 'A run without a thread keeps no checkpoints, and its events name no node.'
  if (run.kwargs.durability === 'exit')
    return 'With durability "exit" a run stores its last checkpoint only, and its events name no node.'
  return 'The run has executed no node, or its checkpoints were deleted.'
}
