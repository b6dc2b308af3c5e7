/** A question of the graph, answered in place: by decisions about actions, or by a form made from its shape. */
import { Icon } from '../../ui/icon'
import '../../styles/question.css'
import { Actions } from './question-actions'
import { Free } from './question-free'
import { requestsOf, textOf } from './question-shape'

interface QuestionProps {
  value: unknown
  answer: (value: unknown) => void
  /** An answer is on its way. */
  busy?: boolean
}

export function Question({ value, answer, busy = false }: QuestionProps) {
  const requests = requestsOf(value)
  return (
    <section className="question" aria-label="Question">
      <h2>
        <Icon name="question" />
        {textOf(value) ?? 'The graph waits for an answer'}
      </h2>
      <fieldset className="question-body" disabled={busy}>
        <legend className="hidden">Answer</legend>
        {requests === null ? (
          <Free value={value} answer={answer} />
        ) : (
          <Actions requests={requests} decide={decisions => answer({ decisions })} />
        )}
      </fieldset>
    </section>
  )
}
