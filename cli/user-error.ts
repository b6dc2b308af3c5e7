/** An error for the person who typed a command: one sentence without a stack, and the exit code of the process. */
export class UserError extends Error {
  constructor(
    message: string,
    readonly exitCode = 1,
  ) {
    super(message)
  }
}
