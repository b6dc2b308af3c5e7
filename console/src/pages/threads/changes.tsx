/** The differences between two checkpoints. */
import { useState } from 'react'
import { Differences } from '../../ui/differences'
import { Field } from '../../ui/field'
import { LoadedView } from '../../ui/notice'
import { idOf, nameOf, type State, useValues } from './state'

interface ChangesProps {
  threadId: string
  state: State
  states: State[]
  parent: string | null
}

export function Changes({ threadId, state, states, parent }: ChangesProps) {
  const [otherId, setOtherId] = useState(parent ?? '')
  const other = states.find(one => idOf(one) === otherId)
  const after = useValues(threadId, state)
  const before = useValues(threadId, other)
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
                  {idOf(one) === parent ? ' (before this one)' : ''} · …{idOf(one).slice(-8)}
                </option>
              ))}
          </select>
        )}
      </Field>
      <LoadedView of={after}>
        {({ values }) => (
          <LoadedView of={before}>
            {({ values: old }) => (
              <Differences before={old} after={values} same="The values of both checkpoints are the same." />
            )}
          </LoadedView>
        )}
      </LoadedView>
    </div>
  )
}
