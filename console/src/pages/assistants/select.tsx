/** The assistant of the next run on a thread. One of another graph is chosen only after a question. */
import type { Assistant } from '@langchain/langgraph-sdk'
import type { Author } from '../../api/author'

interface AssistantSelectProps {
  id?: string
  label?: string
  assistants: readonly Assistant[]
  /** Null: the thread belongs to no graph yet. */
  author: Author | null
  chosen: Assistant | null
  onChoose: (assistant: Assistant) => void
}

export function AssistantSelect({ id, label, assistants, author, chosen, onChoose }: AssistantSelectProps) {
  const known = [author?.assistant, chosen].filter(one => one != null)
  // The list is a page of all assistants.
  const more = known.filter((one, i) => known.indexOf(one) === i && !assistants.some(isSame(one)))
  const list = [...more, ...assistants]
  return (
    <select
      id={id}
      aria-label={label}
      value={chosen?.assistant_id ?? ''}
      onChange={({ target }) => {
        const next = list.find(({ assistant_id }) => assistant_id === target.value)!
        if (isOfGraph(author, next) || confirm(questionOf(author!, next))) onChoose(next)
      }}
    >
      {chosen === null && (
        <option value="" disabled>
          Choose an assistant
        </option>
      )}
      {list.map(({ assistant_id, name }) => (
        <option key={assistant_id} value={assistant_id}>
          {name}
        </option>
      ))}
    </select>
  )
}

const isSame = (one: Assistant) => (other: Assistant) => other.assistant_id === one.assistant_id

export const isOfGraph = (author: Author | null, { graph_id }: Assistant): boolean =>
  author === null || author.graph_id === graph_id

const questionOf = ({ graph_id, assistant }: Author, next: Assistant): string =>
  `This thread is one of the graph ${graph_id}${assistant === null ? ', which is not served now' : ''}. ` +
  `Run the graph ${next.graph_id} on it? A question that it waits with is lost then.`
