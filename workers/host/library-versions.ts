/** The versions of `@langchain/langgraph` that applications may bring. The table in the README says the same. */

/** Older ones give graphs that no other copy of the library can recognise. */
export const OLDEST_LIBRARY = '0.2.20'
/** The newest that the tests have run on. A newer one is served, with a warning. */
export const NEWEST_LIBRARY = '1.7.3'
/** Older ones have the modes `tasks` and `checkpoints` only inside of `debug`. */
const MODES_SINCE = '0.3.6'

/** Why a version cannot be served, in one sentence; null: it can. */
export function refusalOf(version: string, folder: string): string | null {
  if (!isBefore(version, OLDEST_LIBRARY)) return null
  return `The application uses @langchain/langgraph ${version}; Weft serves ${OLDEST_LIBRARY} to ${NEWEST_LIBRARY}: run npm install @langchain/langgraph@latest @langchain/core@latest in ${folder}.`
}

/** What to warn of a version that is served; null: nothing. */
export const warningOf = (version: string): string | null =>
  isBefore(NEWEST_LIBRARY, version)
    ? `The application uses @langchain/langgraph ${version}; the newest version that Weft was tested with is ${NEWEST_LIBRARY}.`
    : null

export const hasTaskModes = (version: string): boolean => !isBefore(version, MODES_SINCE)

/** Numbers are compared one after the other; a version that is no version is before nothing. */
export function isBefore(one: string, other: string): boolean {
  const [a, b] = [one, other].map(text => /^(\d+)\.(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number))
  if (a === undefined || b === undefined) return false
  const i = a.findIndex((number, at) => number !== b[at])
  return i >= 0 && a[i]! < b[i]!
}
