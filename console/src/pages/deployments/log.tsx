import { useState } from 'react'
import { Choices } from '../../ui/choices'
import { LogBox } from '../../ui/log-box'
import { Trouble } from '../../ui/notice'
import { clockText } from '../../ui/time'
import { useLog } from './use-log'

const STAGES = ['All', 'Build', 'Deploy', 'Runtime'] as const
const ALL = 'build,deploy,runtime'

interface LogProps {
  deployment: string
  revision: string
}

/** The output of a revision while it is built, started and run. */
export function Log({ deployment, revision }: LogProps) {
  const [stage, setStage] = useState<(typeof STAGES)[number]>('All')
  const { lines, error } = useLog(deployment, revision, stage === 'All' ? ALL : stage.toLowerCase())
  return (
    <section className="card" aria-label="Log">
      <div className="state-head">
        <Choices label="Stage" choices={STAGES} value={stage} onChange={setStage} />
        <span className="muted">{lines.length} lines, following</span>
      </div>
      <div className="state-body">
        <Trouble error={error} />
        {lines.length === 0 && error === null && <p className="muted">No line yet.</p>}
        {lines.length > 0 && (
          <LogBox label="Lines" lines={lines}>
            {lines.map(({ id, timestamp, level, message }) => (
              <div key={id} className={/^(ERROR|CRITICAL)$/.test(level) ? 'bad' : undefined}>
                <time className="muted">{clockText(new Date(timestamp).toISOString())}</time> {message}
              </div>
            ))}
          </LogBox>
        )}
      </div>
    </section>
  )
}
