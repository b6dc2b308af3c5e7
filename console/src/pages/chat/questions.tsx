/** Everything that a stopped thread asks, answered in place. */
import type { Interrupt } from '@langchain/langgraph-sdk'
import { Button } from '../../ui/button'
import { Question } from './question'

interface QuestionsProps {
  questions: readonly Pick<Interrupt, 'id' | 'value'>[]
  busy: boolean
  /** `resume`: undefined for a thread that stopped without a question. */
  answer: (resume: unknown) => void
}

export const Questions = ({ questions, busy, answer }: QuestionsProps) =>
  questions.length === 0 ? (
    <div className="stopped">
      <span>Stopped before its end, without a question.</span>
      <Button icon="play" disabled={busy} onClick={() => answer(undefined)}>
        Continue
      </Button>
    </div>
  ) : (
    questions.map(({ id, value }, i) => (
      <Question
        key={id ?? i}
        value={value}
        busy={busy}
        answer={given => answer(questions.length > 1 && id !== undefined ? { [id]: given } : given)}
      />
    ))
  )
