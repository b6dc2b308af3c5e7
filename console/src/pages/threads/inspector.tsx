/** One thread: its checkpoints as a timeline, and the state at the chosen one. */
import { useEffect, useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Choices } from '../../ui/choices'
import { CopyButton } from '../../ui/copy'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { Empty, LoadedView } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { Changes } from './changes'
import { RunFrom, UpdateState } from './forms'
import { idOf, parentOf, type State } from './state'
import { Tasks } from './tasks'
import { Timeline } from './timeline'

const VIEWS = ['State', 'Changes', 'Tasks', 'Metadata'] as const
const LIMIT = 200
const EVERY_MS = 2_000

export function Inspector({ threadId }: { threadId: string }) {
  const thread = useLoad(threadId, () => client.threads.get(threadId, { include: [] }), { every: EVERY_MS })
  const history = useLoad(threadId, () => client.threads.getHistory(threadId, { limit: LIMIT }))
  // A run names its last checkpoint in the address.
  const [query] = useSearchParams()
  const [chosenId, setChosenId] = useState(query.get('checkpoint'))
  const [view, setView] = useState<(typeof VIEWS)[number]>('State')
  const [form, setForm] = useState<'update' | 'run' | null>(null)
  const { reload } = history
  const changed = `${thread.data?.updated_at} ${thread.data?.status}`
  // The first load needs no second one.
  const known = thread.data !== undefined
  useEffect(() => {
    if (known) reload()
  }, [changed, known, reload])
  const done = () => {
    setForm(null)
    // The newest state is the one that the change made.
    setChosenId(null)
    reload()
  }

  return (
    <Page
      title={
        <span className="thread-title">
          <span className="mono">{threadId}</span>
          <CopyButton text={threadId} label="Copy the id" />
        </span>
      }
      note={thread.data && <Status of={thread.data.status} />}
      actions={
        <Link href={`/chat/${threadId}`} className="button">
          <Icon name="chat" />
          Open in Chat
        </Link>
      }
    >
      <LoadedView of={history}>
        {states => {
          const state = states.find(one => idOf(one) === chosenId) ?? states[0]
          if (state === undefined)
            return (
              <Empty title="No checkpoint yet" icon="thread">
                The first run of the thread makes one.
              </Empty>
            )
          return (
            <div className="inspector">
              <Timeline states={states} chosen={state} onChoose={one => setChosenId(idOf(one))} />
              <section className="card state" aria-label="Checkpoint">
                <div className="state-head">
                  <Choices label="View" choices={VIEWS} value={view} onChange={setView} />
                  <div className="actions">
                    <Button
                      icon="edit"
                      aria-expanded={form === 'update'}
                      onClick={() => setForm(form === 'update' ? null : 'update')}
                    >
                      Update state
                    </Button>
                    <Button
                      icon="play"
                      aria-expanded={form === 'run'}
                      onClick={() => setForm(form === 'run' ? null : 'run')}
                    >
                      Run from here
                    </Button>
                  </div>
                </div>
                {form === 'update' && <UpdateState key={idOf(state)} threadId={threadId} state={state} done={done} />}
                {form === 'run' && <RunFrom key={idOf(state)} threadId={threadId} state={state} done={done} />}
                <div className="state-body">
                  <View view={view} state={state} states={states} threadId={threadId} />
                </div>
              </section>
            </div>
          )
        }}
      </LoadedView>
    </Page>
  )
}

interface ViewProps {
  view: (typeof VIEWS)[number]
  state: State
  states: State[]
  threadId: string
}

function View({ view, state, states, threadId }: ViewProps) {
  if (view === 'State') return <Json value={state.values} />
  if (view === 'Changes') return <Changes key={idOf(state)} state={state} states={states} parent={parentOf(state)} />
  if (view === 'Tasks') return <Tasks threadId={threadId} state={state} />
  return (
    <Json
      value={{ checkpoint: state.checkpoint, parent: state.parent_checkpoint, metadata: state.metadata }}
      open={3}
    />
  )
}
