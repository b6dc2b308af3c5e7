/** Versions of `@langchain/langgraph` that applications may bring. The table in the README must match. */

/** Other copies of the library cannot recognise the graphs of older versions. */
export const OLDEST_LIBRARY = '0.2.20'
/** The newest tested version. A newer version is served with a warning. */
export const NEWEST_LIBRARY = '1.7.3'
/** Older versions have the modes `tasks` and `checkpoints` only inside of `debug`. */
const MODES_SINCE = '0.3.6'

/** Returns one sentence with the reason for refusing a version; null: the version is served. */
export function refusalOf(version: string, folder: string): string | null {
  if (!isBefore(version, OLDEST_LIBRARY)) return null
  return `The application uses @langchain/langgraph ${version}; Weft serves ${OLDEST_LIBRARY} to ${NEWEST_LIBRARY}: run npm install @langchain/langgraph@latest @langchain/core@latest in ${folder}.`
}

/** Returns the warning for a version that is served; null: no warning. */
export const warningOf = (version: string): string | null =>
  isBefore(NEWEST_LIBRARY, version)
    ? `The application uses @langchain/langgraph ${version}; the newest version that Weft was tested with is ${NEWEST_LIBRARY}.`
    : null

export const hasTaskModes = (version: string): boolean => !isBefore(version, MODES_SINCE)

/** Compares the numbers one after the other; returns false for an invalid version. */
export function isBefore(one: string, other: string): boolean {
  const [a, b] = [one, other].map(text => /^(\d+)\.(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number))
  if (a === undefined || b === undefined) return false
  const i = a.findIndex((number, at) => number !== b[at])
  return i >= 0 && a[i]! < b[i]!
}
