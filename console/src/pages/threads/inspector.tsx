/** One thread: its checkpoints as a timeline, and the state at the chosen one. */
import { useEffect, useState } from 'react'
import { useSearchParams } from 'wouter'
import { ask, client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Choices } from '../../ui/choices'
import { CopyButton } from '../../ui/copy'
import { Json } from '../../ui/json'
import { JsonSearch } from '../../ui/json-search'
import { Empty, LoadedView } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { ThreadActions } from './actions'
import { Changes } from './changes'
import { RunFrom, UpdateState } from './forms'
import { idOf, loadHistory, parentOf, type State, useValues } from './state'
import { Tasks } from './tasks'
import { Timeline } from './timeline'
import { TITLE, type Titled, tailOf, titleOf } from './title'

const VIEWS = ['State', 'Changes', 'Tasks', 'Metadata'] as const
const EVERY_MS = 2_000

export function Inspector({ threadId }: { threadId: string }) {
  const thread = useLoad(threadId, () => client.threads.get(threadId, { include: [] }), { every: EVERY_MS })
  const history = useLoad(threadId, signal => loadHistory(threadId, signal))
  const named = useLoad(`title ${threadId}`, signal => {
    const body = { ids: [threadId], select: ['thread_id', 'metadata'], extract: TITLE }
    return ask<Titled[]>('/threads/search', { method: 'POST', body, signal })
  })
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
  const title = named.data?.[0] === undefined ? tailOf(threadId) : titleOf(named.data[0])

  return (
    <Page
      title={<span className="thread-title">{title}</span>}
      note={
        <span className="thread-note">
          {thread.data && <Status of={thread.data.status} />}
          {thread.data?.metadata?.graph_id != null && <span>{String(thread.data.metadata.graph_id)}</span>}
          <span className="mono">{threadId}</span>
          <CopyButton text={threadId} label="Copy the id" />
        </span>
      }
      actions={<ThreadActions threadId={threadId} title={title} />}
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
  if (view === 'State') return <Values threadId={threadId} state={state} />
  if (view === 'Changes')
    return <Changes key={idOf(state)} threadId={threadId} state={state} states={states} parent={parentOf(state)} />
  if (view === 'Tasks') return <Tasks threadId={threadId} state={state} />
  return (
    <Json
      value={{ checkpoint: state.checkpoint, parent: state.parent_checkpoint, metadata: state.metadata }}
      open={3}
    />
  )
}

function Values({ threadId, state }: { threadId: string; state: State }) {
  const loaded = useValues(threadId, state)
  return (
    <LoadedView of={loaded}>
      {({ values }) => <JsonSearch key={idOf(state)} value={values} label="Search in the state" />}
    </LoadedView>
  )
}
