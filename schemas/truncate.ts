/** Body of POST /internal/truncate (docs/api.md#system): each that is true is emptied. */
import typia from 'typia'

export interface Truncate {
  runs?: boolean | null
  threads?: boolean | null
  /** But the system's own. */
  assistants?: boolean | null
  checkpoint?: boolean | null
  store?: boolean | null
}

export const validateTruncate = typia.createValidate<Truncate>()
