/** What differs between two checkpoints, one row for each place. */
import diff, { type Difference } from 'microdiff'
import { useMemo, useState } from 'react'
import { Field } from '../../ui/field'
import { Json } from '../../ui/json'
import { Empty } from '../../ui/notice'
import { idOf, nameOf, type State } from './state'

interface ChangesProps {
  state: State
  states: State[]
  parent: string | null
}

const WORDS = { CREATE: 'added', REMOVE: 'removed', CHANGE: 'changed' } as const

export function Changes({ state, states, parent }: ChangesProps) {
  const [otherId, setOtherId] = useState(parent ?? '')
  const other = states.find(one => idOf(one) === otherId)
  const rows = useMemo(
    () => diff((other?.values ?? {}) as object, (state.values ?? {}) as object, { cyclesFix: false }),
    [other, state],
  )
  return (
    <div className="changes">
      <Field label="Compared with">
        {id => (
          <select id={id} value={otherId} onChange={event => setOtherId(event.target.value)}>
            <option value="">Nothing</option>
            {states
              .filter(one => one !== state)
              .map(one => (
                <option key={idOf(one)} value={idOf(one)}>
                  {nameOf(one)}
                  {idOf(one) === parent ? ' (before this one)' : ''} · {idOf(one).slice(0, 13)}
                </option>
              ))}
          </select>
        )}
      </Field>
      {rows.length === 0 ? (
        <Empty title="No difference" icon="diff">
          The values of both checkpoints are the same.
        </Empty>
      ) : (
        <ul>
          {rows.map(row => (
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
      )}
    </div>
  )
}

const pathText = ({ path }: Difference): string =>
  path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('')
