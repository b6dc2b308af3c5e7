/** The command line of `npm run faults`. */
import { parseArgs } from 'node:util'
import { UserError } from '../../../cli/user-error.js'
import { STORES, type StoreName } from './result.js'

export const HELP = `npm run faults -- [--only 1,5,13] [--quick [--no-times] | --long] [--store sqlite|postgres|mongo|all]
                  [--seed n] [--random n] [--out folder] [--page]

Injects the faults of docs/faults.md into a Weft of real processes and checks what is promised for each; then it executes
random schedules of faults (--random: how many, one unless rows are selected). --quick: a small load, the same checks;
--no-times: but not of figures in time, on a machine that has other work. --long: the load of the promise itself, also where
that takes ten minutes. --seed repeats the choices of an earlier run. The figures go to docs/faults.json and docs/faults.md
(--out: to these files in another folder); rows that were not executed keep theirs; --page writes the page without executing
any. The ledgers and logs of rows that fell short stay in .faults/. Exit code 1: a row fell short.

--soak: a mixed load for many minutes with one fault a minute, and what memory, descriptors, disk and latency do meanwhile.
`

export interface Options {
  /** Numbers of rows; null: all of them. */
  only: readonly number[] | null
  quick: boolean
  long: boolean
  /** Figures in time are judged. */
  times: boolean
  stores: readonly StoreName[]
  seed: number
  /** How many random schedules. */
  random: number
  out: string
  /** Only writes the page. */
  page: boolean
  /** The arguments that a repetition needs. */
  args: string
}

/** Throws a UserError when the command line is wrong; null for --help. */
export function optionsOf(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      long: { type: 'boolean', default: false },
      'no-times': { type: 'boolean', default: false },
      store: { type: 'string', default: 'all' },
      seed: { type: 'string' },
      random: { type: 'string' },
      out: { type: 'string', default: 'docs' },
      page: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { only, quick, long, store, out, page } = values
  if (quick && long) throw new UserError('--quick and --long: expected one of them', 2)
  if (values['no-times'] && !quick) throw new UserError('--no-times: expected with --quick', 2)
  if (store !== 'all' && !STORES.includes(store as StoreName))
    throw new UserError(`--store ${store}: expected sqlite, postgres, mongo or all`, 2)
  const rows = only === undefined ? null : only.split(',').map(text => whole('only', text))
  return {
    only: rows,
    quick,
    long,
    times: !values['no-times'],
    stores: store === 'all' ? STORES : [store as StoreName],
    seed: values.seed === undefined ? Date.now() % 1_000_000 : whole('seed', values.seed),
    random: values.random === undefined ? (rows === null ? 1 : 0) : whole('random', values.random),
    out,
    page,
    args: [quick && '--quick', values['no-times'] && '--no-times', long && '--long'].filter(Boolean).join(' '),
  }
}

function whole(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text.trim())) throw new UserError(`--${name} ${text}: expected whole numbers`, 2)
  return Number(text)
}
