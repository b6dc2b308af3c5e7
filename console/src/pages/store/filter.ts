/** The conditions that a person types to find items. */
import type { SearchItem } from '@langchain/langgraph-sdk'

export type Item = SearchItem

/** `kind:note` and `{"kind": "note"}`; null for anything else. */
export function filterIn(text: string): { [name: string]: unknown } | null {
  const [, name, value] = /^([\w.-]+):\s*(\S.*)$/.exec(text) ?? []
  if (name !== undefined && value !== undefined) return { [name]: parsed(value) }
  const filter = text.startsWith('{') ? parsed(text) : null
  return typeof filter === 'object' ? (filter as { [name: string]: unknown } | null) : null
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export function wordsIn(items: Item[], text: string): Item[] {
  const words = text.toLowerCase().split(/\s+/)
  const textOf = ({ key, value }: Item) => `${key} ${JSON.stringify(value)}`.toLowerCase()
  return items.filter(item => words.every(word => textOf(item).includes(word)))
}
