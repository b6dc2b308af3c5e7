/** All runs, and one of them. */
import { Redirect, useParams } from 'wouter'
import '../styles/runs.css'
import { RunList } from './runs/list'
import { RunView } from './runs/run'

export default function Runs() {
  const { thread, run } = useParams()
  if (thread === undefined) return <RunList />
  if (run === undefined) return <Redirect to={`/runs?thread=${thread}`} replace />
  return <RunView key={run} threadId={thread} runId={run} />
}
