/** The name of a thread for a person: its title, what was said first, or the end of its id. */

export interface Titled {
  thread_id: string
  metadata?: { [name: string]: unknown } | null
  extracted?: { [name: string]: unknown }
}

/** For `extract` of a search. The first message may be of the system. */
export const TITLE = {
  type: 'values.messages[0].type',
  role: 'values.messages[0].role',
  first: 'values.messages[0].content',
  second: 'values.messages[1].content',
}

const LONGEST = 120

export const titleOf = (thread: Titled): string => saidIn(thread) ?? tailOf(thread.thread_id)

/** Null: nothing names the thread. */
export function saidIn({ metadata, extracted = {} }: Titled): string | null {
  const isSystem = [extracted.type, extracted.role].some(one => one === 'system' || one === 'developer')
  const title = textOf(metadata?.title) ?? (isSystem ? textOf(extracted.second) : null) ?? textOf(extracted.first)
  return title !== null && title.length > LONGEST ? `${title.slice(0, LONGEST)}…` : title
}

/** Ids that were made one after another begin alike. */
export const tailOf = (id: string): string => (id.length > 12 ? `…${id.slice(-12)}` : id)

/** The text of a message, which may be a list of parts. */
function textOf(content: unknown): string | null {
  const text = Array.isArray(content)
    ? content.map(part => (typeof part === 'string' ? part : ((part as { text?: unknown })?.text ?? ''))).join(' ')
    : content
  return typeof text === 'string' && text.trim() !== '' ? text.trim() : null
}
