/** The figures of ended runs. */
import type { Link } from '../../../bus/connect.js'
import type { RunSummary } from '../../../store/rows/runs.js'

type Ended = Pick<RunSummary, 'app' | 'graph_id' | 'assistant_id' | 'created_at' | 'due_at' | 'started_at'>

/** `status`: as it ended, or rolled_back. A run that never started has no times. */
export function countEnd({ figures }: Pick<Link, 'figures'>, run: Ended, status: string, now: number): void {
  figures.count('weft_runs_ended_total', { status })
  const graph = figures.few({ app: run.app, graph: run.graph_id })
  figures.count('weft_graph_runs_total', { ...graph, status })
  figures.count('weft_assistant_runs_total', { ...figures.few({ assistant: run.assistant_id }), status })
  const { created_at, due_at, started_at } = run
  if (started_at === null) return
  // A run that was handed back is due again later than it started first.
  const due = due_at <= started_at ? Math.max(created_at, due_at) : created_at
  figures.histogram('weft_run_wait_seconds', graph).observe(Math.max(0, started_at - due) / 1_000)
  figures.histogram('weft_run_seconds', graph).observe(Math.max(0, now - started_at) / 1_000)
}
