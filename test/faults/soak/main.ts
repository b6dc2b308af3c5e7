/** `--soak`: runs a soak; writes docs/soak.json, docs/plots/soak-*.svg and its part of docs/faults.md. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../../../cli/root.js'
import { plotsOf, soakText, summaryOf } from './report.js'
import { soak } from './soak.js'

const MARK = '<!-- soak -->'

/** Resolves to the number of sentences about what fell short. `log` writes a line for a person. */
export async function runSoak(args: string[], log: (line: string) => void): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      soak: { type: 'boolean' },
      minutes: { type: 'string', default: '30' },
      seed: { type: 'string', default: `${Date.now() % 1_000_000}` },
      out: { type: 'string', default: 'docs' },
    },
  })
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
  log(`seed ${seed}`)
  const result = await soak({ minutes, seed, log })
  const date = new Date().toISOString().slice(0, 10)
  const summary = summaryOf(result, date, `npm run faults -- --soak --minutes ${minutes} --seed ${seed}`)
  const folder = resolve(root, values.out)
  mkdirSync(join(folder, 'plots'), { recursive: true })
  writeFileSync(join(folder, 'soak.json'), `${JSON.stringify(summary, null, 2)}\n`)
  for (const [file, svg] of Object.entries(plotsOf(result, date))) writeFileSync(join(folder, 'plots', file), svg)
  const text = soakText(summary)
  const page = readFileSync(join(root, 'docs/faults.md'), 'utf8')
  const [before, , after] = page.split(MARK)
  if (after === undefined) throw new Error(`docs/faults.md needs two lines "${MARK}"`)
  writeFileSync(join(folder, 'faults.md'), [before, `\n${text}`, after].join(MARK))
  log(text)
  return result.short.length
}
