/** A chat page around `useStream`. The thread is in the address, so that a reload continues where it was. */
import type { Checkpoint, Message } from '@langchain/langgraph-sdk'
import { useStream } from '@langchain/langgraph-sdk/react'
import { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Composer, MessageView, Question } from './parts.js'
import './page.css'

type State = { messages: Message[] }
type Bag = { InterruptType: { question: string } }

const address = new URL(location.href)

function Chat() {
  const [threadId, setThreadId] = useState(address.searchParams.get('thread'))
  const stream = useStream<State, Bag>({
    apiUrl: location.origin,
    assistantId: 'guide',
    threadId,
    // A page that is loaded again joins the run that it had started.
    reconnectOnMount: true,
    // The history knows the branches that edits have made.
    fetchStateHistory: { limit: 100 },
    onThreadId(id) {
      setThreadId(id)
      address.searchParams.set('thread', id)
      history.replaceState(null, '', address)
    },
  })

  /** With a checkpoint, the message begins a branch there: an edit replaces a message by continuing before it. */
  const send = (text: string, checkpoint?: Checkpoint) =>
    stream.submit({ messages: [{ type: 'human', content: text }] }, checkpoint && { checkpoint })

  return (
    <main>
      <header>
        <h1>Travel guide</h1>
        <a href="/app">New chat</a>
      </header>
      <ol aria-live="polite">
        {stream.messages.map((message, index) => {
          const seen = stream.getMessagesMetadata(message, index)
          const checkpoint = seen?.firstSeenState?.parent_checkpoint
          return (
            <MessageView
              key={message.id ?? index}
              message={message}
              branches={seen?.branchOptions ?? []}
              branch={seen?.branch}
              onBranch={stream.setBranch}
              onEdit={stream.isLoading || !checkpoint ? null : text => send(text, checkpoint)}
            />
          )
        })}
      </ol>
      {stream.error ? <p role="alert">{String(stream.error)}</p> : null}
      {stream.interrupt?.value && !stream.isLoading ? (
        <Question
          text={stream.interrupt.value.question}
          onAnswer={resume => stream.submit(null, { command: { resume } })}
        />
      ) : (
        <Composer isBusy={stream.isLoading} onSend={send} onStop={stream.stop} />
      )}
    </main>
  )
}

createRoot(document.getElementById('root') as HTMLElement).render(<Chat />)
