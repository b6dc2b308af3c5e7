/** How large a run may get. More than this is the run's own error; its host and the other runs go on. */

/** Bytes of one event, of the rendered values, and of the state in one checkpoint. */
export const LARGEST_STATE = 64 * 1024 * 1024

/** Bytes of the answer to a question. */
export const LARGEST_ANSWER = 200 * 1024 * 1024

export class StateTooLarge extends Error {
  override name = 'StateTooLarge'

  constructor(what: string, bytes?: number) {
    super(`${what}${bytes === undefined ? '' : ` (${bytes} bytes)`} exceed the limit of ${LARGEST_STATE} bytes`)
  }
}
