/**
 * The command `weft`. It loads nothing but the table of commands (../program.ts): the launcher of `weft start` stays small,
 * and only the process that runs the roles loads their libraries. docs/command-line.md lists the exit codes.
 */
import { type Command, CommanderError } from 'commander'
import { makeProgram, SERVE_HTTP, SERVERS } from './program.js'
import { sayLast } from './say.js'
import { UserError } from './user-error.js'

/** The sentence for the person and the exit code; null when commander has printed what was asked for. */
function outcomeOf(error: unknown): { sentence: string | null; code: number } {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return { sentence: null, code: 0 }
    // A group without its command: the help was printed.
    if (error.code === 'commander.help') return { sentence: null, code: 2 }
    const sentence = error.message
      .replace(/^error: /, '')
      .replace(/\.$/, '')
      .replaceAll('\n', ' ')
    return { sentence: `${sentence}; see \`weft help\``, code: 2 }
  }
  if (error instanceof UserError) return { sentence: error.message, code: error.exitCode }
  const { message, stack } = error as Error
  return { sentence: process.env.LOG_LEVEL === 'debug' ? (stack ?? message) : message, code: 1 }
}

/** A progress bar hides the cursor and switches line breaks off. */
const CURSOR_AND_BREAKS = '\u001b[?25h\u001b[?7h'

/** Leaves the terminal as it was. The commands that serve stop in order. */
function endOnSignals(command: Command): void {
  if (SERVERS.includes(command.name())) return
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      if (process.stderr.isTTY) process.stderr.write(CURSOR_AND_BREAKS)
      // After other listeners of this signal.
      setImmediate(() => process.kill(process.pid, signal))
    })
}

// The reader of a pipe may leave early, as `head` does.
process.stdout.on('error', error => {
  if ((error as NodeJS.ErrnoException).code === 'EPIPE') process.exit(0)
  throw error
})
try {
  const program = makeProgram()
  program.hook('preAction', async (_, command) => {
    if (SERVE_HTTP.includes(command.name())) await (await import('./http-runtime.js')).prepareHttp()
    endOnSignals(command)
  })
  if (process.argv[2] === 'complete') (await import('./commands/complete.js')).addCompletion(program)
  const [, , first, topic = ''] = process.argv
  // The library prints the help of all commands and does not say why.
  if (first === 'help' && topic !== '' && !topic.startsWith('-') && !program.commands.some(one => one.name() === topic))
    throw new UserError(`unknown command '${topic}'; see \`weft help\``, 2)
  if (process.argv.length === 2) program.outputHelp()
  else await program.parseAsync()
} catch (error) {
  const { sentence, code } = outcomeOf(error)
  // Of other commands a person reads it.
  if (sentence !== null && SERVERS.includes(process.argv[2] ?? '')) sayLast(sentence)
  else if (sentence !== null) process.stderr.write(`weft: ${sentence}\n`)
  process.exit(code)
}
