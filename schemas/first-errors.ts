/**
 * What validators report: the first errors of a value, instead of all. The validators of typia go through the whole value
 * after the first error; 3 MB of `{}` in a list took 5 s and 600 MB. The build makes them use this module
 * (scripts/typia-import.mjs), which has the names of theirs.
 */
import type { IValidation } from 'typia'

type Failure = IValidation.IError

/** A person corrects a few at a time. */
const MAX_ERRORS = 100

class Enough extends Error {
  constructor(readonly errors: Failure[]) {
    super('the value has too many errors')
  }
}

/** Adds errors to the list, not those of a value whose members have errors. */
export function _validateReport(errors: Failure[]): (isReported: boolean, error: Failure) => false {
  const isNew = (path: string) => {
    const last = errors.at(-1)?.path ?? ''
    return path.length > last.length || !last.startsWith(path)
  }
  return (isReported, error) => {
    if (!isReported || (errors.length > 0 && !isNew(error.path))) return false
    errors.push(error)
    if (errors.length >= MAX_ERRORS) throw new Enough(errors)
    return false
  }
}

/** The validator itself. */
export const _createStandardSchema =
  <T>(validate: (value: unknown) => IValidation<T>) =>
  (value: unknown): IValidation<T> => {
    try {
      return validate(value)
    } catch (error) {
      if (error instanceof Enough) return { success: false, data: value, errors: error.errors }
      throw error
    }
  }
