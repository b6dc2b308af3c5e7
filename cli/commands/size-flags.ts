/** The flags of `weft size`. This file is loaded with every command: the calculator itself is not. */
import { type Command, Option } from 'commander'
import { UserError } from '../user-error.js'

/** The flags are those of `Load` in commands/size-of.ts. */
const LOAD = {
  '--reads <n>': 'reads a second',
  '--writes <n>': 'creates and changes a second',
  '--runs <n>': 'runs a second',
  '--steps <n>': 'steps of a run',
  '--on-threads <share>': 'share of the runs on threads, 0 to 1',
  '--run-seconds <n>': 'how long a run lasts',
  '--run-cpu-ms <n>': 'CPU that the nodes of a run need themselves',
  '--tokens <n>': 'tokens of a run that are streamed',
  '--chunks <n>': 'custom chunks of a run',
  '--resumable <share>': 'share of the chunks that are stored',
  '--streams <n>': 'streams that are open at the same time',
  '--threads <n>': 'threads that are kept',
  '--stored-runs <n>': 'runs that are kept',
  '--items <n>': 'items of the item store',
  '--cores <n>': 'cores of a machine',
  '--utilisation <share>': 'share of a core that may be busy on average',
} as const

/** Adds `weft size`. */
export function addSize(program: Command): void {
  const size = program.command('size').description('estimate the processes, cores and bytes that a load needs')
  for (const [form, help] of Object.entries(LOAD))
    size.addOption(new Option(form, help).argParser(text => someNumber(form.split(' ')[0]!, text)))
  size
    .addOption(new Option('--store <store>').choices(['sqlite', 'mongo']))
    .option('--costs <file>', 'figures of `npm run bench`; those of docs/costs.json when absent')
    .addOption(new Option('--json', 'print JSON'))
    .action(async flags => (await import('./size.js')).printSize(flags))
}

function someNumber(flag: string, text: string): number {
  const n = Number(text)
  if (!Number.isFinite(n) || text.trim() === '') throw new UserError(`${flag} must be a number, not "${text}"`, 2)
  return n
}
