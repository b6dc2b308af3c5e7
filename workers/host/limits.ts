/** Size limits of a run. Exceeding one is an error of this run; its host and the other runs continue. */

/** Maximum bytes of one event, of the rendered values, and of the state in one checkpoint. */
export const LARGEST_STATE = 64 * 1024 * 1024

/** Maximum bytes of the answer to a call. */
export const LARGEST_ANSWER = 200 * 1024 * 1024

export class StateTooLarge extends Error {
  override name = 'StateTooLarge'

  constructor(what: string, bytes?: number) {
    super(`${what}${bytes === undefined ? '' : ` (${bytes} bytes)`} exceed the limit of ${LARGEST_STATE} bytes`)
  }
}
