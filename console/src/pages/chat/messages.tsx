/** The messages of a thread. Tool messages are shown inside the call that they answer. */
import type { Checkpoint, Message } from '@langchain/langgraph-sdk'
import type { MessageMetadata } from '@langchain/langgraph-sdk/react'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Button } from '../../ui/button'
import { Markdown } from '../../ui/markdown'
import { Empty, Skeleton } from '../../ui/notice'
import { ToolCalls } from './tool-calls'

export type State = { messages?: Message[] }

export interface MessageActions {
  detailsOf: (message: Message, index: number) => MessageMetadata<State> | undefined
  canChange: boolean
  /** Sends another text in place of a message: the thread forks before it. */
  edit: (text: string, checkpoint: Checkpoint | null | undefined) => void
  regenerate: (checkpoint: Checkpoint | null | undefined) => void
  choose: (branch: string) => void
}

interface MessagesProps {
  messages: Message[]
  actions: MessageActions
  isLoading: boolean
  /** The messages are not known yet. */
  isThreadLoading: boolean
  children: ReactNode
}

const NEAR_END = 120

export function Messages({ messages, actions, isLoading, isThreadLoading, children }: MessagesProps) {
  const box = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  useEffect(() => {
    if (follows.current) box.current?.scrollTo({ top: box.current.scrollHeight })
  }, [messages, isLoading, children])
  const results = new Map(messages.flatMap(one => (one.type === 'tool' ? [[one.tool_call_id, one] as const] : [])))
  const called = new Set(messages.flatMap(one => (one.type === 'ai' ? (one.tool_calls ?? []).map(({ id }) => id) : [])))
  return (
    <div
      ref={box}
      className="messages"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR_END
      }}
    >
      {messages.length === 0 && isThreadLoading && <Skeleton />}
      {messages.length === 0 && !isThreadLoading && (
        <Empty title="Nothing said yet" icon="chat">
          Write below; the answer appears as it is made.
        </Empty>
      )}
      <ol>
        {messages.map((message, i) => {
          if (message.type === 'tool' && called.has(message.tool_call_id)) return null
          return (
            <li key={message.id ?? i} className={`message ${message.type}`}>
              <span className="hidden">{WHO[message.type] ?? message.type}</span>
              <Body message={message} results={results} index={i} actions={actions} />
            </li>
          )
        })}
      </ol>
      {isLoading && messages.at(-1)?.type !== 'ai' && <p className="thinking">Working…</p>}
      {children}
    </div>
  )
}

const WHO: { readonly [type: string]: string } = { human: 'You', ai: 'Assistant', tool: 'Tool', system: 'System' }

interface BodyProps {
  message: Message
  results: ReadonlyMap<string, Message>
  index: number
  actions: MessageActions
}

function Body({ message, results, index, actions }: BodyProps) {
  const [draft, setDraft] = useState<string | null>(null)
  const details = actions.detailsOf(message, index)
  const before = details?.firstSeenState?.parent_checkpoint
  const text = textOf(message.content)
  if (draft !== null)
    return (
      <form
        className="edit"
        onSubmit={event => {
          event.preventDefault()
          setDraft(null)
          actions.edit(draft, before)
        }}
      >
        <textarea
          aria-label="Edit the message"
          rows={3}
          value={draft}
          onChange={event => setDraft(event.target.value)}
        />
        <div className="actions">
          <Button kind="primary" type="submit" disabled={draft.trim() === ''}>
            Send as a fork
          </Button>
          <Button onClick={() => setDraft(null)}>Keep</Button>
        </div>
      </form>
    )
  const isLeaf = message.type === 'ai' && (message.tool_calls ?? []).length === 0
  return (
    <>
      {message.type === 'human' ? <p className="said">{text}</p> : text !== '' && <Markdown text={text} />}
      {message.type === 'ai' && <ToolCalls calls={message.tool_calls ?? []} results={results} />}
      <div className="message-actions">
        <Branches details={details} choose={actions.choose} />
        {message.type === 'human' && details?.firstSeenState !== undefined && (
          <Button kind="ghost" icon="edit" label="Edit" disabled={!actions.canChange} onClick={() => setDraft(text)} />
        )}
        {isLeaf && before && (
          <Button
            kind="ghost"
            icon="redo"
            label="Regenerate"
            disabled={!actions.canChange}
            onClick={() => actions.regenerate(before)}
          />
        )}
      </div>
    </>
  )
}

interface BranchesProps {
  details: MessageMetadata<State> | undefined
  choose: (branch: string) => void
}

/** Which of the forks at a message is shown. */
function Branches({ details, choose }: BranchesProps) {
  const { branch, branchOptions } = details ?? {}
  if (branchOptions === undefined || branchOptions.length < 2) return null
  const at = Math.max(0, branchOptions.indexOf(branch ?? ''))
  const go = (to: number) => () => choose(branchOptions[to]!)
  return (
    <span className="branches">
      <Button kind="ghost" icon="left" label="Earlier fork" disabled={at === 0} onClick={go(at - 1)} />
      <span>
        {at + 1} of {branchOptions.length}
      </span>
      <Button
        kind="ghost"
        icon="right"
        label="Later fork"
        disabled={at === branchOptions.length - 1}
        onClick={go(at + 1)}
      />
    </span>
  )
}

/** The text of a content that may have parts; parts of other kinds are named. */
function textOf(content: Message['content']): string {
  if (typeof content === 'string') return content
  return content.map(part => (part.type === 'text' ? part.text : `[${part.type}]`)).join('\n')
}
