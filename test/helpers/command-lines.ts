/** The commands of `weft` and what they take: of the table that commander parses with. */
import type { Argument, Command, Option } from 'commander'

interface CommandLine {
  arguments: readonly Argument[]
  options: readonly Option[]
}

/** By its name, as `runs list`: every command that does something. */
export function commandLines(program: Command, before = ''): Map<string, CommandLine> {
  const all = new Map<string, CommandLine>()
  for (const command of program.commands) {
    const name = `${before}${command.name()}`
    if (command.commands.length > 0) for (const row of commandLines(command, `${name} `)) all.set(...row)
    else all.set(name, { arguments: command.registeredArguments, options: command.options })
  }
  return all
}
