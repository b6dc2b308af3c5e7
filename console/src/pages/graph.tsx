/** The graph of an assistant, and a run that lights it up. */
import { useEffect, useRef, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import { client } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { JsonEditor } from '../ui/json-editor'
import { Empty, LoadedView, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { openActivity, type TaskEvent } from './graph/activity'
import GraphView from './graph/view'

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

const EXAMPLE = '{\n  "messages": [\n    { "role": "user", "content": "research tides" }\n  ]\n}'

function LiveGraph({ assistantId }: { assistantId: string }) {
  const [activity] = useState(openActivity)
  const [input, setInput] = useState<unknown>(JSON.parse(EXAMPLE))
  const [thread, setThread] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const running = useRef<AbortController | null>(null)
  const [isRunning, setRunning] = useState(false)
  useEffect(() => () => running.current?.abort(), [])

  async function run(): Promise<void> {
    const controller = new AbortController()
    running.current = controller
    activity.clear()
    setError(null)
    setRunning(true)
    try {
      const { thread_id } = await client.threads.create()
      setThread(thread_id)
      const events = client.runs.stream(thread_id, assistantId, {
        input: input as { [key: string]: unknown } | null,
        streamMode: ['tasks'],
        streamSubgraphs: true,
        signal: controller.signal,
      })
      for await (const { event, data } of events) {
        const [name, ...namespace] = (event as string).split('|')
        if (name === 'tasks') activity.note(data as unknown as TaskEvent, namespace)
        if (name === 'error') setError(new Error((data as unknown as { message: string }).message))
      }
    } catch (error) {
      if (!controller.signal.aborted) setError(error)
    } finally {
      setRunning(false)
    }
  }

  return (
    <div className="graph-page">
      <section className="card graph-card" aria-label="Drawing">
        <GraphView assistantId={assistantId} activity={activity} />
      </section>
      <form
        className="card graph-form"
        onSubmit={event => {
          event.preventDefault()
          void run()
        }}
      >
        <JsonEditor label="Input" hint="Runs on a new thread." rows={8} initial={EXAMPLE} onChange={setInput} />
        <Trouble error={error} />
        <div className="actions">
          <Button kind="primary" icon="play" type="submit" disabled={isRunning || input === undefined}>
            {isRunning ? 'Running…' : 'Run'}
          </Button>
          {thread !== null && (
            <Link href={`/threads/${thread}`} className="button ghost">
              Inspect the thread
            </Link>
          )}
        </div>
      </form>
    </div>
  )
}
