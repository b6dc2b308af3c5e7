/** A chat around `useStream`. The API is a path of this server, so that the page needs neither another address nor CORS. */
'use client'

import type { Message } from '@langchain/langgraph-sdk'
import { useStream } from '@langchain/langgraph-sdk/react'
import { type FormEvent, useState } from 'react'

const apiUrl = typeof location === 'undefined' ? 'http://localhost' : `${location.origin}/api/agent`

export default function Page() {
  const [text, setText] = useState('')
  const stream = useStream<{ messages: Message[] }>({ apiUrl, assistantId: 'packer', reconnectOnMount: true })

  const send = (event: FormEvent) => {
    event.preventDefault()
    stream.submit({ messages: [{ type: 'human', content: text }] })
    setText('')
  }

  return (
    <main>
      <h1>Packing list</h1>
      <ol aria-live="polite">
        {stream.messages.map(({ id, type, content }) => (
          <li key={id}>
            <b>{type === 'human' ? 'You' : 'Packer'}:</b> {typeof content === 'string' ? content : ''}
          </li>
        ))}
      </ol>
      {stream.error ? <p role="alert">{String(stream.error)}</p> : null}
      <form onSubmit={send}>
        <input aria-label="Message" value={text} onChange={event => setText(event.target.value)} />{' '}
        {stream.isLoading ? (
          <button type="button" onClick={() => stream.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit" disabled={text === ''}>
            Send
          </button>
        )}
      </form>
    </main>
  )
}
