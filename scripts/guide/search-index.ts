/** The index of the search, made by the build: the page loads it when a person opens the search. */
import MiniSearch from 'minisearch'
import type { Passage } from './markdown.js'
import { FIELDS } from './search-fields.js'

export interface Entry {
  id: string
  page: string
  title: string
  text: string
}

/** Longer texts are found by their first characters. */
const LONGEST = 1500

/** `pages`: name, title and passages of each. */
export function indexOf(pages: readonly { name: string; title: string; passages: readonly Passage[] }[]): string {
  const index = new MiniSearch<Entry>(FIELDS)
  for (const { name, title: page, passages } of pages)
    index.addAll(
      passages.map(({ id, title, text }) => ({
        id: `${name}.html${id === '' ? '' : `#${id}`}`,
        page,
        title,
        text: text.slice(0, LONGEST),
      })),
    )
  return JSON.stringify(index)
}
