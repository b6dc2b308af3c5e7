/** What a person who typed a command is told, in one sentence, and the exit code that goes with it. */
export class Sentence extends Error {
  constructor(
    message: string,
    readonly exitCode = 1,
  ) {
    super(message)
  }
}
