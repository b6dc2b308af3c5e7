/** The parts of the page: a message with its branches, a question of the graph, a line to type in. */
import type { Message } from '@langchain/langgraph-sdk'
import { type FormEvent, useState } from 'react'

interface MessageProps {
  message: Message
  /** Versions of the thread that differ from this message on; one of them is shown. */
  branches: string[]
  branch: string | undefined
  onBranch(branch: string): void
  /** Null while it cannot be edited. */
  onEdit: ((text: string) => void) | null
}

export function MessageView({ message, branches, branch, onBranch, onEdit }: MessageProps) {
  const [isEditing, setEditing] = useState(false)
  const text = typeof message.content === 'string' ? message.content : ''
  const calls = message.type === 'ai' ? (message.tool_calls ?? []) : []
  if (isEditing)
    return (
      <li className="human">
        <Line
          first={text}
          label="Edit the message"
          button="Send again"
          onSend={said => {
            setEditing(false)
            onEdit?.(said)
          }}
        />
      </li>
    )
  const at = branch === undefined ? -1 : branches.indexOf(branch)
  return (
    <li className={message.type}>
      {text === '' ? null : <p>{text}</p>}
      {calls.map(({ id, name, args }) => (
        <code key={id}>
          {name}({Object.values(args).join(', ')})
        </code>
      ))}
      {message.type === 'human' ? (
        <nav>
          {onEdit === null ? null : <Small label="Edit" text="edit" onClick={() => setEditing(true)} />}
          {branches.length > 1 ? (
            <>
              <Small label="Earlier version" text="‹" onClick={at > 0 ? () => onBranch(branches[at - 1]!) : null} />
              {at + 1} / {branches.length}
              <Small
                label="Later version"
                text="›"
                onClick={at < branches.length - 1 ? () => onBranch(branches[at + 1]!) : null}
              />
            </>
          ) : null}
        </nav>
      ) : null}
    </li>
  )
}

function Small({ label, text, onClick }: { label: string; text: string; onClick: (() => void) | null }) {
  return (
    <button type="button" className="small" aria-label={label} disabled={onClick === null} onClick={() => onClick?.()}>
      {text}
    </button>
  )
}

export function Question({ text, onAnswer }: { text: string; onAnswer(agreed: boolean): void }) {
  return (
    <section aria-label="Question">
      <p>{text}</p>
      <button type="button" onClick={() => onAnswer(true)}>
        Yes
      </button>
      <button type="button" className="quiet" onClick={() => onAnswer(false)}>
        No
      </button>
    </section>
  )
}

interface ComposerProps {
  isBusy: boolean
  onSend(text: string): void
  onStop(): void
}

export function Composer({ isBusy, onSend, onStop }: ComposerProps) {
  if (!isBusy) return <Line first="" label="Message" button="Send" onSend={onSend} />
  return (
    <button type="button" className="stop" onClick={onStop}>
      Stop
    </button>
  )
}

interface LineProps {
  first: string
  label: string
  button: string
  onSend(text: string): void
}

function Line({ first, label, button, onSend }: LineProps) {
  const [text, setText] = useState(first)
  function submit(event: FormEvent) {
    event.preventDefault()
    if (text.trim() === '') return
    setText('')
    onSend(text)
  }
  return (
    <form onSubmit={submit}>
      <input
        aria-label={label}
        placeholder="trains to Turin"
        value={text}
        onChange={event => setText(event.target.value)}
      />
      <button type="submit">{button}</button>
    </form>
  )
}
