/** Differences that are on purpose. Each names its row of docs/differences.md, where the reason is. */
import type { Language } from './case.js'
import type { Difference } from './differ.js'

export interface Known {
  /** The first cell of the row. */
  row: string
  language?: Language
  /** Matches `<case> <number> <call> <path>`. */
  at: RegExp
  /** Whether the values are those of the row; any unless given. */
  when?(difference: Difference): boolean
}

export const KNOWN: readonly Known[] = []

/** The row that says why; null: nothing explains it. */
export function knownOf(language: Language, place: string, difference: Difference): Known | null {
  return (
    KNOWN.find(
      known =>
        (known.language ?? language) === language &&
        known.at.test(`${place} ${difference.path}`) &&
        (known.when?.(difference) ?? true),
    ) ?? null
  )
}
