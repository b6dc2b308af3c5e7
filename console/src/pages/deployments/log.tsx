import { useLayoutEffect, useRef, useState } from 'react'
import { Choices } from '../../ui/choices'
import { Trouble } from '../../ui/notice'
import { clockText } from '../../ui/time'
import { useLog } from './use-log'

const STAGES = ['All', 'Build', 'Deploy', 'Runtime'] as const
const ALL = 'build,deploy,runtime'
/** As near to the end as this, in pixels, the log follows its last line. */
const NEAR = 40

interface LogProps {
  deployment: string
  revision: string
}

/** The output of a revision while it is built, started and run. */
export function Log({ deployment, revision }: LogProps) {
  const [stage, setStage] = useState<(typeof STAGES)[number]>('All')
  const { lines, error } = useLog(deployment, revision, stage === 'All' ? ALL : stage.toLowerCase())
  const box = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  useLayoutEffect(() => {
    if (follows.current && lines.length > 0) box.current?.scrollTo(0, box.current.scrollHeight)
  }, [lines])
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
          <div
            ref={box}
            className="log"
            role="log"
            aria-label="Lines"
            // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys
            tabIndex={0}
            onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
              follows.current = scrollHeight - scrollTop - clientHeight < NEAR
            }}
          >
            {lines.map(({ id, timestamp, level, message }) => (
              <div key={id} className={/^(ERROR|CRITICAL)$/.test(level) ? 'bad' : undefined}>
                <time className="muted">{clockText(new Date(timestamp).toISOString())}</time> {message}
              </div>
            ))}
          </div>
        )}
      </div>
    </section>
  )
}
