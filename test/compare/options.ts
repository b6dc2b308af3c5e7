/** The command line of `npm run compare`. */
import { parseArgs } from 'node:util'
import { UserError } from '../../cli/user-error.js'
import type { Language } from './case.js'

export const HELP = `npm run compare -- [--language python|javascript] [--only pattern] [--seed n] [--list]

Sends the same calls to Weft and to the official development server of a language, and compares what they answer and store.
The official server is installed into the cache, ~/.cache/weft. --only: cases whose name matches the pattern. --seed repeats
the generated cases of an earlier run. --list prints the names of the cases. Exit code 1: a difference is unexplained.
Differences on purpose are in docs/differences.md.
`

export interface Options {
  languages: readonly Language[]
  only: RegExp
  seed: number
  list: boolean
}

const LANGUAGES: readonly Language[] = ['python', 'javascript']

/** Throws a UserError when the command line is wrong; null for --help. */
export function optionsOf(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      language: { type: 'string' },
      only: { type: 'string', default: '' },
      seed: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { language, only, list } = values
  if (language !== undefined && !LANGUAGES.includes(language as Language))
    throw new UserError(`--language ${language}: expected python or javascript`, 2)
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
  if (!Number.isSafeInteger(seed)) throw new UserError(`--seed ${values.seed}: expected a whole number`, 2)
  return { languages: language === undefined ? LANGUAGES : [language as Language], only: new RegExp(only), seed, list }
}
