/** The differences between two values, one row for each place. */
import diff, { type Difference } from 'microdiff'
import { useMemo, useState } from 'react'
import { Button } from './button'
import { Json } from './json'
import { Empty } from './notice'

const WORDS = { CREATE: 'added', REMOVE: 'removed', CHANGE: 'changed' } as const
/** Rows that are shown at a time. */
const MANY = 100

interface DifferencesProps {
  before: unknown
  after: unknown
  /** The sentence when there are none. */
  same: string
}

export function Differences({ before, after, same }: DifferencesProps) {
  const [shown, setShown] = useState(MANY)
  const rows = useMemo(
    () => diff((before ?? {}) as object, (after ?? {}) as object, { cyclesFix: false }),
    [before, after],
  )
  if (rows.length === 0)
    return (
      <Empty title="No difference" icon="diff">
        {same}
      </Empty>
    )
  return (
    <>
      <ul className="differences">
        {rows.slice(0, shown).map(row => (
          <li key={row.path.join('.')} className={`change ${WORDS[row.type]}`}>
            <div className="change-head">
              <code>{pathText(row)}</code>
              <span>{WORDS[row.type]}</span>
            </div>
            {row.type !== 'CREATE' && (
              <div className="change-old">
                <Json value={row.oldValue} open={1} />
              </div>
            )}
            {row.type !== 'REMOVE' && (
              <div className="change-new">
                <Json value={row.value} open={1} />
              </div>
            )}
          </li>
        ))}
      </ul>
      {rows.length > shown && (
        <Button onClick={() => setShown(shown + MANY)}>Show more of {rows.length} differences</Button>
      )}
    </>
  )
}

const pathText = ({ path }: Difference): string =>
  path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('')
