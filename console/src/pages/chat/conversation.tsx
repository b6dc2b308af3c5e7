/** One thread and one assistant: the messages as they stream, questions of the graph, and what a person says. */
import type { Assistant, Checkpoint } from '@langchain/langgraph-sdk'
import { useStream } from '@langchain/langgraph-sdk/react'
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { Link } from 'wouter'
import { type Author, authorOf } from '../../api/author'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Icon } from '../../ui/icon'
import { LoadedView, Loading, Trouble } from '../../ui/notice'
import { AssistantSelect, isOfGraph } from '../assistants/select'
import { openActivity, type TaskEvent } from '../graph/activity'
import { Composer } from './composer'
import { ConfigForm, type Settings, useSettings } from './config-form'
import { type MessageActions, Messages, type State } from './messages'
import { Question } from './question'

interface ConversationProps {
  threadId: string | null
  assistants: Assistant[]
  onThreadId: (id: string) => void
  onClose: (() => void) | null
  before: ReactNode
}

const GraphView = lazy(() => import('../graph/view'))

const CHOSEN = 'weft.assistant'
/** The default of 10 states would not reach back to the first message, and branches begin there. */
const HISTORY = { limit: 200 }

/** A thread that exists is shown once its own assistant is known: nothing is sent to another one before. */
export function Conversation(props: ConversationProps) {
  const { threadId, before } = props
  const author = useLoad(`author of ${threadId}`, () =>
    threadId === null ? Promise.resolve(null) : authorOf(threadId),
  )
  const { data, reload } = author
  const [isKnown, setKnown] = useState(threadId === null)
  useEffect(() => {
    if (data !== undefined) setKnown(true)
  }, [data])
  if (!isKnown)
    return (
      <section className="pane" aria-label={`Thread ${threadId}`}>
        <header className="pane-head">{before}</header>
        <LoadedView of={author}>{() => <Loading />}</LoadedView>
      </section>
    )
  return <Pane {...props} author={data ?? null} onRun={reload} />
}

interface PaneProps extends ConversationProps {
  author: Author | null
  /** No run is under way: the thread may belong to another graph than before. */
  onRun: () => void
}

function Pane({ threadId, assistants, onThreadId, onClose, before, author, onRun }: PaneProps) {
  const [chosen, setChosen] = useState<Assistant | null>(null)
  const [usual] = useState(() => {
    const last = sessionStorage.getItem(CHOSEN)
    return assistants.find(one => one.assistant_id === last) ?? assistants[0]!
  })
  const assistant = chosen ?? (author === null ? usual : author.assistant)
  const assistantId = assistant?.assistant_id ?? ''
  const [draws, setDraws] = useState(false)
  const [activity] = useState(openActivity)
  const [configures, setConfigures] = useState(false)
  const [settings, setSettings] = useSettings(assistantId)
  const stream = useStream<State>({
    client,
    assistantId,
    threadId,
    onThreadId,
    reconnectOnMount: true,
    fetchStateHistory: HISTORY,
    onCreated: () => activity.clear(),
    onTaskEvent: (task, { namespace }) => activity.note(task as TaskEvent, namespace),
  })
  const { isLoading, interrupts, error } = stream
  useEffect(() => {
    if (!isLoading) onRun()
  }, [isLoading, onRun])
  const options = runOptions(settings)
  // Only the graph that stopped can go on.
  const answers = assistant !== null && isOfGraph(author, assistant)

  const submit = (values: State | undefined, more: Parameters<typeof stream.submit>[1] = {}) => {
    void stream.submit(values, { ...options, ...more })
    // The hook goes to the newest fork; a run without a checkpoint continues the one that is shown.
    if (more.checkpoint === undefined) stream.setBranch(stream.branch)
  }
  const send = (content: string, checkpoint?: Checkpoint | null) => {
    const message = { type: 'human' as const, content }
    submit(
      { messages: [message] },
      {
        ...(checkpoint === undefined ? {} : { checkpoint }),
        optimisticValues: last => ({
          ...last,
          messages: [...(checkpoint === undefined ? (last.messages ?? []) : []), message],
        }),
      },
    )
  }
  const actions: MessageActions = {
    detailsOf: (message, i) => stream.getMessagesMetadata(message, i),
    // A run that is loading would be forked at the state from before it.
    canChange: !isLoading,
    edit: (text, checkpoint) => send(text, checkpoint),
    regenerate: checkpoint => submit(undefined, { checkpoint }),
    choose: branch => stream.setBranch(branch),
  }

  return (
    <section className="pane" aria-label={threadId === null ? 'New thread' : `Thread ${threadId}`}>
      <header className="pane-head">
        {before}
        <AssistantSelect
          label="Assistant"
          assistants={assistants}
          author={author}
          chosen={assistant}
          onChoose={next => {
            if (author === null) sessionStorage.setItem(CHOSEN, next.assistant_id)
            setChosen(next)
          }}
        />
        <Button
          kind="ghost"
          icon="settings"
          label="Configuration"
          aria-expanded={configures}
          onClick={() => setConfigures(!configures)}
        />
        <Button kind="ghost" icon="graph" label="Graph" aria-expanded={draws} onClick={() => setDraws(!draws)} />
        <span className="pane-state" role="status">
          {isLoading ? 'running' : stream.isThreadLoading ? 'loading' : ''}
        </span>
        {threadId !== null && (
          <Link href={`/threads/${threadId}`} className="button ghost icon-only" aria-label="Inspect the thread">
            <Icon name="thread" />
          </Link>
        )}
        {onClose !== null && <Button kind="ghost" icon="close" label="Close this pane" onClick={onClose} />}
      </header>
      {draws && (
        <div className="pane-graph">
          <Suspense fallback={<Loading />}>
            {assistant !== null && <GraphView assistantId={assistantId} activity={activity} />}
          </Suspense>
        </div>
      )}
      {configures && assistant !== null && (
        <ConfigForm assistantId={assistantId} settings={settings} onChange={setSettings} />
      )}
      <Messages
        messages={stream.messages}
        actions={actions}
        isLoading={isLoading}
        isThreadLoading={threadId !== null && stream.isThreadLoading}
      >
        <Trouble error={error} />
        {!isLoading && interrupts.length > 0 && !answers && (
          <Elsewhere author={author!} back={author!.assistant === null ? null : () => setChosen(null)} />
        )}
        {!isLoading &&
          answers &&
          interrupts.map((interrupt, i) =>
            interrupt.value === undefined ? (
              <Stopped key="stopped" proceed={() => submit(undefined)} />
            ) : (
              <Question
                key={interrupt.id ?? i}
                value={interrupt.value}
                answer={value =>
                  submit(undefined, {
                    command: {
                      resume: interrupts.length > 1 && interrupt.id !== undefined ? { [interrupt.id]: value } : value,
                    },
                  })
                }
              />
            ),
          )}
      </Messages>
      {assistant === null ? (
        <p className="stopped muted">The graph {author!.graph_id} of this thread is not served now.</p>
      ) : (
        <Composer isLoading={isLoading} onSend={text => send(text)} onStop={() => void stream.stop()} />
      )}
    </section>
  )
}

/** The thread waits for another graph than the chosen one. */
const Elsewhere = ({ author: { graph_id }, back }: { author: Author; back: (() => void) | null }) => (
  <div className="stopped">
    <span className="muted">This thread waits for an answer to the graph {graph_id}.</span>
    {back !== null && <Button onClick={back}>Go on with {graph_id}</Button>}
  </div>
)

/** A run that was stopped, or ended at a breakpoint: the next nodes have not run. */
const Stopped = ({ proceed }: { proceed: () => void }) => (
  <div className="stopped">
    <span className="muted">Stopped before the end.</span>
    <Button icon="play" onClick={proceed}>
      Continue
    </Button>
  </div>
)

const runOptions = ({ context, configurable }: Settings) => ({
  streamResumable: true,
  onDisconnect: 'continue' as const,
  ...(Object.keys(context).length === 0 ? {} : { context }),
  ...(Object.keys(configurable).length === 0 ? {} : { config: { configurable } }),
})
