/** `weft size`: the processes, cores and bytes that a load needs, from what `npm run bench` has measured. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../root.js'
import { paint, printJson, printTable } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type Costs, type Load, type Size, sizeOf } from './size-of.js'

/** The load unless a flag says otherwise. */
export const USUAL_LOAD: Load = {
  reads: 0,
  writes: 0,
  runs: 0,
  steps: 1,
  on_threads: 1,
  run_seconds: 1,
  run_cpu_ms: 0,
  tokens: 0,
  chunks: 0,
  resumable: 0,
  streams: 0,
  threads: 0,
  stored_runs: 0,
  items: 0,
  store: 'sqlite',
  cores: 4,
  utilisation: 0.6,
}

type SizeFlags = { [flag: string]: string | number | true | undefined } & { costs?: string; json?: true }

export function printSize({ costs: file, json, ...flags }: SizeFlags): void {
  const load = {
    ...USUAL_LOAD,
    ...Object.fromEntries(Object.entries(flags).map(([flag, value]) => [snake(flag), value])),
  }
  const costs = readCosts(file ?? join(root, 'docs/costs.json'))
  let size: Size
  try {
    size = sizeOf(load as Load, costs)
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(error.message, 2)
    throw error
  }
  if (json) return printJson({ load, ...size })
  const rows = size.roles.map(({ role, busy, processes, memory_mb, because }) => [
    role,
    busy.toFixed(2),
    `${processes}`,
    `${Math.ceil(memory_mb)}`,
    because,
  ])
  printTable(['role', 'cores busy', 'processes', 'MB', 'because of'], rows)
  const say = (line: string) => process.stdout.write(`${line}\n`)
  say('')
  say(
    `cores      ${size.cores.toFixed(1)} at ${load.utilisation} of each, ${size.machines} machine${size.machines === 1 ? '' : 's'} of ${load.cores}`,
  )
  say(`memory     ${Math.ceil(size.memory_mb)} MB`)
  say(`broker     ${Math.ceil(size.messages).toLocaleString('en-US')} messages/s, ${size.message_mb.toFixed(1)} MB/s`)
  say(`stored     ${size.stored_gb.toFixed(2)} GB`)
  for (const sentence of size.beyond) say(paint(sentence, 'yellow'))
  say(
    paint(
      `Measured ${costs.at.slice(0, 10)} on ${costs.machine.cores} cores of ${costs.machine.model}; nodes of graphs and MongoDB itself not counted.`,
      'dim',
    ),
  )
}

function readCosts(file: string): Costs {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Costs
  } catch (error) {
    throw new UserError(
      `${file} cannot be read (${(error as Error).message}): expected what \`npm run bench -- --apart --costs\` writes`,
      2,
    )
  }
}

const snake = (flag: string): string => flag.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
