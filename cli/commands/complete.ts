/** `weft complete`: the script of a shell, and the words that such a script asks for. */
import addTab from '@bomb.sh/tab/commander'
import type { Command } from 'commander'

const SHELLS = ['bash', 'zsh', 'fish', 'powershell']

export function addCompletion(program: Command): void {
  const tab = addTab(program)
  tab.commands.get('complete')?.argument('shell', complete => {
    for (const shell of SHELLS) complete(shell, '')
  })
  tab.commands.get('help')?.argument('command', complete => {
    for (const command of program.commands) complete(command.name(), command.description())
  })
  // The library prints words and a last line with a number, or a script.
  const print = console.log
  let words = 0
  console.log = (text: string) => {
    if (text === NO_FILES && words === 0) return print(FILES)
    words++
    print(text.includes('\n') ? corrected(text) : text)
  }
}

/** A position without words takes the name of a file, as without completion. */
const NO_FILES = ':4'
const FILES = ':0'

/** That of bash could not be read twice, and never fell back to names of files. */
const corrected = (script: string): string =>
  script.replaceAll(/^readonly /gm, '').replace(/^complete -F /m, 'complete -o default -F ')
