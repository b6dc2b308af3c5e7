/** Log lines of graph workers and their hosts. */
import { Link } from 'wouter'
import { ask } from '../../api/client'
import { Id } from '../../ui/id'
import { LogBox } from '../../ui/log-box'
import { clockText } from '../../ui/time'

interface Line {
  id: string
  time: string
  level: 'debug' | 'info' | 'warn' | 'error'
  stream: 'stdout' | 'stderr' | 'log'
  process: string
  text: string
  worker: string
  pool: string
  run_id: string | null
  thread_id: string | null
  graph_id: string | null
}

export interface Logs {
  lines: Line[]
  workers: { worker: string; pool: string }[]
}

export const askLogs = (query: { [name: string]: string }, signal: AbortSignal): Promise<Logs> =>
  ask<Logs>(`/workers/logs?${new URLSearchParams(query)}`, { signal })

/** `withRuns`: each line links to its run. */
export const Lines = ({ of: lines, withRuns = false }: { of: readonly Line[]; withRuns?: boolean }) => (
  <LogBox label="Lines" lines={lines}>
    {lines.map(line => (
      <div key={line.id} className={`log-line ${line.level}`}>
        <time className="muted" dateTime={line.time} title={new Date(line.time).toLocaleString()}>
          {clockText(line.time)}
        </time>
        <span className="log-level">{line.level}</span>
        <span className="log-text">{line.text}</span>
        <span className="log-from muted">
          <span title={`${line.worker}, ${line.stream}`}>{line.process}</span>
          {withRuns && line.run_id !== null && line.thread_id !== null && (
            <Link href={`/runs/${line.thread_id}/${line.run_id}`} title={`Run ${line.run_id} of ${line.graph_id}`}>
              <Id of={line.run_id} />
            </Link>
          )}
        </span>
      </div>
    ))}
  </LogBox>
)
