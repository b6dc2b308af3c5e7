/**
 * Chat messages in the stream. The library's `messages` mode sends tokens as they arrive and whole messages that nodes
 * return. They become the tuples (`messages-tuple`) and, together with the state, the accumulated form (`messages`).
 */
import { randomUUID } from 'node:crypto'
import { isMessage, render } from '../render.js'

interface Message {
  id?: string
  lc_kwargs?: { id?: string }
  /** Present on chunks only. */
  concat?(next: Message): Message
}

/**
 * Decides whether to send a message: a whole message once, and never after its own tokens, because clients join
 * messages by id. A whole message without an id gets one here, as its reducer would do: the same object enters the
 * state.
 */
export function onlyOnce(): (message: Message) => boolean {
  const known = new Set<string>()
  return message => {
    const isToken = message.concat !== undefined
    if (!isToken && !message.id) {
      message.id = randomUUID()
      if (message.lc_kwargs !== undefined) message.lc_kwargs.id = message.id
    }
    const { id } = message
    if (id === undefined) return true
    if (!isToken && known.has(id)) return false
    known.add(id)
    return true
  }
}

export interface Accumulated {
  /** A chunk of the library's `messages` mode. */
  chunk(message: Message, metadata: unknown): void
  /** The state after a step of the graph in `ns`; call this after the values event of that step. */
  values(ns: string, state: unknown): void
}

/**
 * docs/spec/streams.md#events: messages/metadata once per message, messages/partial with the text so far, messages/complete
 * once per message that this run added to the state. Messages that the state held at the start are not sent.
 */
export function accumulated(push: (event: string, json: string) => void): Accumulated {
  const open = new Map<string, Message>()
  const whole = new Set<string>()
  const complete = new Set<string>()
  const started = new Set<string>()
  return {
    chunk(message, metadata) {
      const { id } = message
      if (id === undefined) return
      if (message.concat === undefined) return void whole.add(id)
      const before = open.get(id)
      if (before === undefined) push('messages/metadata', render({ [id]: { metadata } }))
      const now = before === undefined ? message : before.concat!(message)
      open.set(id, now)
      push('messages/partial', render([now]))
    },
    values(ns, state) {
      const isFirst = !started.has(ns)
      started.add(ns)
      const done: Message[] = []
      for (const message of messagesIn(state)) {
        const { id } = message
        if (!id || complete.has(id)) continue
        complete.add(id)
        const isOurs = open.delete(id) || whole.delete(id)
        if (isOurs || !isFirst) done.push(message)
      }
      if (done.length > 0) push('messages/complete', render(done))
    },
  }
}

/** Finds messages in lists at the top level of the state, under any name; or the state is the list. */
function* messagesIn(state: unknown): Generator<Message> {
  if (typeof state !== 'object' || state === null) return
  for (const value of Array.isArray(state) ? [state] : Object.values(state)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item === 'object' && item !== null && isMessage(item)) yield item as Message
    }
  }
}
