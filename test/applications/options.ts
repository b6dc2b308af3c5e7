/** The command line of `npm run applications`. */
import { parseArgs } from 'node:util'
import { UserError } from '../../cli/user-error.js'

export const HELP = `npm run applications -- [--only pattern] [--from folder [--fresh]] [--official] [--list]

Starts applications of published packages with a fake model server, and takes each through the same tour: schemas, drawing,
runs, stream modes, interrupts, state, history, fork, store. Packages are installed into the cache, ~/.cache/weft. --only:
those whose language/name matches the pattern. --from: the application of a folder with a langgraph.json, instead; --fresh:
without its lock files, and with the newest packages that its package.json or pyproject.toml allows. --official: rows on the official development server. For JavaScript its files are named as TypeScript, from which it reads schemas for up
to a minute, and it is asked for no events of subgraphs: with them its version 2.0.0 fails. --list prints the names. Exit code
1: a step failed.
`

export interface Options {
  only: RegExp
  from: string | undefined
  fresh: boolean
  official: boolean
  list: boolean
}

/** Null for --help. */
export function optionsOf(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', default: '' },
      from: { type: 'string' },
      fresh: { type: 'boolean', default: false },
      official: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { only, from, fresh, official, list } = values
  // The server of the language is found by the row; a folder says neither its language nor its packages.
  if (from !== undefined && official) throw new UserError('--official takes rows of the table: leave out --from', 2)
  if (fresh && from === undefined)
    throw new UserError('--fresh is about the packages of a folder: name it with --from', 2)
  return { only: new RegExp(only), from, fresh, official, list }
}
