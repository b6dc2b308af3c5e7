/** Chooses one graph of those that are served, or all. */
import { client } from '../../api/client'
import { useLoad } from '../../api/load'

interface GraphFilterProps {
  /** Empty: all. */
  value: string
  onChange: (graph: string) => void
}

export function GraphFilter({ value, onChange }: GraphFilterProps) {
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  const served = [...new Set((assistants.data ?? []).map(({ graph_id }) => graph_id))].sort()
  // A graph of an address need not be served.
  const graphs = value === '' || served.includes(value) ? served : [value, ...served]
  if (graphs.length < 2 && value === '') return null
  return (
    <select className="filter" aria-label="Graph" value={value} onChange={event => onChange(event.target.value)}>
      <option value="">All graphs</option>
      {graphs.map(graph => (
        <option key={graph} value={graph}>
          {graph}
        </option>
      ))}
    </select>
  )
}
