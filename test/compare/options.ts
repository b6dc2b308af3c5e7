/** The command line of `npm run compare`. */
import { parseArgs } from 'node:util'
import { UserError } from '../../cli/user-error.js'
import { isLoopback } from '../../schemas/loopback.js'
import type { Language } from './case.js'

export const HELP = `npm run compare -- [--language python|javascript] [--only pattern] [--seed n] [--list]
                   [--url http://127.0.0.1:PORT [--details]]

Sends the same calls to Weft and to the official development server of a language, and compares what they answer and store.
The official server is installed into the cache, ~/.cache/weft. --only: cases whose name matches the pattern. --seed repeats
the generated cases of an earlier run. --list prints the names of the cases. Exit code 1: a difference is unexplained.
Differences on purpose are in docs/differences.md.

With --url it scores that server instead of Weft: for each family of calls, how many answers are those of the official server
(docs/differences.md says what is counted). The server must serve the graphs of test/apps/compare/<language>, python unless
given, and must be empty: the calls change and delete what it has. --details prints a difference of each answer that is not alike.
`

export interface Options {
  languages: readonly Language[]
  only: RegExp
  seed: number
  list: boolean
  /** The server to score; null: Weft is compared. */
  url: string | null
  details: boolean
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
      url: { type: 'string' },
      details: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { only, list, details } = values
  const url = values.url === undefined ? null : baseOf(values.url)
  const language = values.language ?? (url === null ? undefined : 'python')
  if (language !== undefined && !LANGUAGES.includes(language as Language))
    throw new UserError(`--language ${language}: expected python or javascript`, 2)
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
  if (!Number.isSafeInteger(seed)) throw new UserError(`--seed ${values.seed}: expected a whole number`, 2)
  const languages = language === undefined ? LANGUAGES : [language as Language]
  return { languages, only: new RegExp(only), seed, list, url, details }
}

/** Without a slash at its end. */
function baseOf(url: string): string {
  const { protocol, hostname, href } = URL.canParse(url) ? new URL(url) : ({} as Partial<URL>)
  if (protocol !== 'http:' || !isLoopback(hostname ?? ''))
    throw new UserError(`--url ${url}: expected http://127.0.0.1:PORT, the calls delete what the server has`, 2)
  return href!.replace(/\/+$/, '')
}
