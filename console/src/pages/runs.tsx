/** The latest runs, and one of them with its events. */
import { useParams } from 'wouter'
import '../styles/runs.css'
import { RunView } from './runs/run'
import { RunTable } from './runs/table'

export default function Runs() {
  const { thread, run } = useParams()
  return thread !== undefined && run !== undefined ? (
    <RunView key={run} threadId={thread} runId={run} />
  ) : (
    <RunTable threadId={thread ?? null} />
  )
}
