/**
 * Chat messages on their way out. The library's `messages` mode gives tokens as they come and whole messages that
 * nodes return; from it are made the tuples (`messages-tuple`) and, with the state, the accumulated form (`messages`).
 */
import { randomUUID } from 'node:crypto'
import { isMessage, render } from './render.js'

interface Message {
  id?: string
  lc_kwargs?: { id?: string }
  /** Chunks alone have it. */
  concat?(next: Message): Message
}

/**
 * Says whether a message is to be sent: a whole one once, and never after its own tokens, because clients join by id.
 * A whole message without an id gets one here, as its reducer would give it: the same object goes into the state.
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
  /** The state after a step, of the graph in `ns`; to be called after its own event. */
  values(ns: string, state: unknown): void
}

/**
 * API: messages/metadata once per message, messages/partial with the text so far, messages/complete once per message
 * that came into the state by this run: what the state held at the start is not sent.
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

/** Messages stand in lists at the top of the state, whatever the list is called; or the state is the list. */
function* messagesIn(state: unknown): Generator<Message> {
  if (typeof state !== 'object' || state === null) return
  for (const value of Array.isArray(state) ? [state] : Object.values(state)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item === 'object' && item !== null && isMessage(item)) yield item as Message
    }
  }
}
