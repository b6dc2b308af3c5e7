/** The assistants, and one of them with its versions. */
import { useParams } from 'wouter'
import '../styles/assistants.css'
import { AssistantView } from './assistants/assistant'
import { AssistantTable } from './assistants/table'

export default function Assistants() {
  const { id } = useParams()
  return id === undefined ? <AssistantTable /> : <AssistantView key={id} assistantId={id} />
}
