/** The threads of the server, and one of them from the inside. */
import { useParams } from 'wouter'
import '../styles/threads.css'
import { Inspector } from './threads/inspector'
import { ThreadTable } from './threads/table'

export default function Threads() {
  const { id } = useParams()
  return id === undefined ? <ThreadTable /> : <Inspector key={id} threadId={id} />
}
