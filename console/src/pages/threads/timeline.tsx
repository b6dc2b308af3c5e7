import { clockText } from '../../ui/time'
import { idOf, nameOf, parentOf, type State } from './state'

interface TimelineProps {
  states: State[]
  chosen: State
  onChoose: (state: State) => void
}

/** The checkpoints, the newest first. One that is not made from the one below it begins a fork. */
export const Timeline = ({ states, chosen, onChoose }: TimelineProps) => (
  <nav className="timeline" aria-label="History">
    <ol>
      {states.map((state, i) => {
        const below = states[i + 1]
        const isFork = below !== undefined && parentOf(state) !== idOf(below)
        const ran = state.tasks.map(({ name }) => name).join(', ')
        return (
          <li key={idOf(state)}>
            <button
              type="button"
              className={state.tasks.some(({ error }) => error) ? 'failed' : ''}
              aria-current={state === chosen ? 'step' : undefined}
              onClick={() => onChoose(state)}
            >
              <span className="timeline-name">{nameOf(state)}</span>
              <span className="timeline-next">
                {state.next.length > 0 ? `→ ${state.next.join(', ')}` : ran || 'end'}
              </span>
              <small>
                {state.created_at && clockText(state.created_at)}
                {isFork && ' · fork'}
                {state.tasks.some(({ interrupts }) => interrupts.length > 0) && ' · question'}
              </small>
            </button>
          </li>
        )
      })}
    </ol>
  </nav>
)
