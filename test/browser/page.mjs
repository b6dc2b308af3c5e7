/** A small chat page around `useStream`: a test clicks the buttons that a person would click. */
import { createElement as h, useState } from 'react'
import { createRoot } from 'react-dom/client'

const query = new URLSearchParams(location.search)

function Chat({ useStream }) {
  const [thread, setThread] = useState(query.get('thread'))
  const [text, setText] = useState('')
  const stream = useStream({
    apiUrl: query.get('api'),
    assistantId: 'chat',
    threadId: thread,
    reconnectOnMount: true,
    // The default of 10 states would not reach back to the first message.
    fetchStateHistory: { limit: 100 },
    throttle: false,
    onThreadId(id) {
      setThread(id)
      query.set('thread', id)
      history.replaceState(null, '', `?${query}`)
    },
    onError: error => console.error(error),
  })
  const send = (content, options) =>
    stream.submit({ messages: [{ type: 'human', content }] }, { streamSubgraphs: /^deep/.test(content), ...options })
  const before = message => stream.getMessagesMetadata(message)?.firstSeenState?.parent_checkpoint
  const button = (id, onClick) => h('button', { id, onClick, type: 'button' }, id)
  return h(
    'main',
    null,
    h('p', { id: 'state' }, stream.isLoading ? 'loading' : 'idle'),
    h('p', { id: 'error' }, stream.error ? String(stream.error) : ''),
    h('p', { id: 'question' }, stream.interrupt?.value?.question ?? ''),
    h(
      'ol',
      null,
      stream.messages.map((message, i) =>
        h(
          'li',
          { key: message.id ?? i, 'data-type': message.type },
          h('span', null, String(message.content)),
          message.type === 'human' && button(`edit ${i}`, () => send(text, { checkpoint: before(message) })),
          h('i', null, stream.getMessagesMetadata(message)?.branchOptions?.length ?? 0),
        ),
      ),
    ),
    h('input', { id: 'text', value: text, onChange: event => setText(event.target.value) }),
    button('send', () => send(text)),
    button('answer', () => stream.submit(undefined, { command: { resume: text } })),
    button('stop', () => stream.stop()),
  )
}

/** Mounts the page with the `useStream` of one of the SDK lines. */
export const start = useStream => createRoot(document.getElementById('root')).render(h(Chat, { useStream }))
