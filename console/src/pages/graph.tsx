/** The graph of an assistant, and a run that lights it up. */
import { useLocation, useParams } from 'wouter'
import { client } from '../api/client'
import { useLoad } from '../api/load'
import { Empty, LoadedView } from '../ui/notice'
import { Page } from '../ui/page'
import { LiveGraph } from './graph/live'

export default function Graphs() {
  const { assistant } = useParams()
  const [, go] = useLocation()
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  return (
    <LoadedView of={assistants}>
      {list => {
        const chosen = list.find(one => one.assistant_id === assistant || one.graph_id === assistant) ?? list[0]
        if (chosen === undefined)
          return <Empty title="No graph yet">A graph worker registers the graphs of its application.</Empty>
        return (
          <Page
            title={chosen.name}
            note={chosen.description || `Graph ${chosen.graph_id}`}
            actions={
              list.length > 1 && (
                <select
                  aria-label="Assistant"
                  value={chosen.assistant_id}
                  onChange={event => go(`/graphs/${event.target.value}`)}
                >
                  {list.map(({ assistant_id, name }) => (
                    <option key={assistant_id} value={assistant_id}>
                      {name}
                    </option>
                  ))}
                </select>
              )
            }
          >
            <LiveGraph key={chosen.assistant_id} assistantId={chosen.assistant_id} />
          </Page>
        )
      }}
    </LoadedView>
  )
}
