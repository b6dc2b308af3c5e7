/** A small chat page around `useStream` of `@langchain/react`. */
import { useStream } from '@langchain/react'
import { createElement as h, useState } from 'react'
import { createRoot } from 'react-dom/client'

const query = new URLSearchParams(location.search)
const textOf = content => (typeof content === 'string' ? content : content.map(({ text = '' }) => text).join(''))

function Chat() {
  const [thread, setThread] = useState(query.get('thread'))
  const [text, setText] = useState('')
  const stream = useStream({
    apiUrl: query.get('api'),
    assistantId: 'chat',
    threadId: thread,
    onThreadId(id) {
      setThread(id)
      query.set('thread', id)
      history.replaceState(null, '', `?${query}`)
    },
  })
  return h(
    'main',
    null,
    h('p', { id: 'state' }, stream.isLoading ? 'loading' : 'idle'),
    h('p', { id: 'error' }, stream.error ? String(stream.error) : ''),
    h(
      'ol',
      null,
      stream.messages.map((message, i) => h('li', { key: message.id ?? i }, textOf(message.content))),
    ),
    h('input', { id: 'text', value: text, onChange: event => setText(event.target.value) }),
    h(
      'button',
      { id: 'send', type: 'button', onClick: () => stream.submit({ messages: [{ type: 'human', content: text }] }) },
      'send',
    ),
  )
}

createRoot(document.getElementById('root')).render(h(Chat))
