import { useDeferredValue, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { ACTIONS, ListTable } from '../../ui/list-table'
import { Empty, LoadedView } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Pager } from '../../ui/pager'
import { Ago } from '../../ui/time'
import { useFilters } from '../../ui/use-filters'
import { AssistantForm } from './form'
import { GraphFilter } from './graph-filter'

const PAGE = 25

/** The assistants that changed last. */
export function AssistantTable() {
  const [, go] = useLocation()
  const [{ q = '', graph = '', from = '0' }, setFilters] = useFilters()
  const name = useDeferredValue(q.trim())
  const offset = Number(from) || 0
  const [creates, setCreates] = useState(false)
  const assistants = useLoad(`assistants ${graph} ${name} ${offset}`, () =>
    client.assistants.search({
      limit: PAGE,
      offset,
      sortBy: 'updated_at',
      sortOrder: 'desc',
      ...(graph === '' ? {} : { graphId: graph }),
      ...(name === '' ? {} : { name }),
    }),
  )
  return (
    <Page
      title="Assistants"
      note="A graph with a configuration, in versions."
      actions={
        <Button kind="primary" icon="plus" aria-expanded={creates} onClick={() => setCreates(!creates)}>
          New assistant
        </Button>
      }
    >
      {creates && (
        <AssistantForm
          assistant={null}
          close={() => setCreates(false)}
          done={({ assistant_id }) => go(`/assistants/${assistant_id}`)}
        />
      )}
      <search className="filters">
        <input
          type="search"
          aria-label="Search assistants"
          placeholder="Part of a name"
          value={q}
          onChange={event => setFilters({ q: event.target.value, from: '' })}
        />
        <GraphFilter value={graph} onChange={next => setFilters({ graph: next, from: '' })} />
      </search>
      <div className="card scroll-x">
        <LoadedView of={assistants}>
          {rows => (
            <ListTable
              rows={rows}
              columns={['Assistant', 'Graph', 'Version', 'Updated', ACTIONS]}
              empty={
                <Empty title={name === '' && graph === '' ? 'No assistant yet' : 'No assistant matches'} icon="graph">
                  A graph worker registers one for each graph that it serves.
                </Empty>
              }
            >
              {({ assistant_id, name, description, graph_id, version, updated_at }) => (
                <tr key={assistant_id}>
                  <td>
                    <div className="cell-title">
                      <Link href={`/assistants/${assistant_id}`}>{name}</Link>
                      {description && <span className="muted">{description}</span>}
                    </div>
                  </td>
                  <td>{graph_id}</td>
                  <td className="nowrap">version {version}</td>
                  <td className="nowrap">
                    <Ago at={updated_at} />
                  </td>
                  <td>
                    <Link href={`/graphs/${assistant_id}`} className="button ghost">
                      Graph
                    </Link>
                  </td>
                </tr>
              )}
            </ListTable>
          )}
        </LoadedView>
      </div>
      <Pager offset={offset} size={PAGE} shown={assistants.data?.length} go={next => setFilters({ from: next })} />
    </Page>
  )
}
