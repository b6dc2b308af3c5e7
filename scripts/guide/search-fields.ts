/** The search of the guide: the build makes its index, the page asks it, and both name the same fields. */
import type MiniSearch from 'minisearch'
import type { SearchResult } from 'minisearch'

export const FIELDS = { fields: ['title', 'page', 'text'], storeFields: ['page', 'title', 'text'] }

/** They say nothing about a subject. A text of nothing else is searched as it is. */
const COMMON = new Set(
  'a an and are as at be by can do does for from how i if in is it my of on or the this to was what when why with'.split(
    ' ',
  ),
)
/** Pages that few readers look for, the first that fits. What describes Weft to its users weighs 1. */
const WEIGHTS: readonly [page: RegExp, weight: number][] = [
  [/^(reference-(control-plane|oauth|schemas)|spec-(control-plane|oauth))/, 0.15],
  [/^(decisions|changelog|contributing|internals|pipe|readme|faults|soak)/, 0.25],
  [/^(reference|spec)/, 0.4],
]
/** A short word has too many neighbours. */
const FUZZY_FROM = 5

/** Entries with more of the words come first, whatever else they contain. */
export function find(index: MiniSearch, text: string): SearchResult[] {
  const all = text.trim().split(/\s+/).filter(Boolean)
  const telling = all.filter(word => !COMMON.has(word.toLowerCase()))
  const words = telling.length > 0 ? telling : all
  const results = index.search(words.join(' '), {
    prefix: true,
    fuzzy: word => (word.length < FUZZY_FROM ? false : 0.15),
    boost: { title: 4, page: 2 },
    boostDocument: id => WEIGHTS.find(([page]) => page.test(`${id}`))?.[1] ?? 1,
  })
  const found = ({ queryTerms }: SearchResult) => new Set(queryTerms).size
  return results.sort((a, b) => found(b) - found(a) || b.score - a.score)
}
