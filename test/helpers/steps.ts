/** Reads the step logs that the graphs of test/apps/faults write: a checker does not depend on the server's records. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './until.js'

export interface Step {
  step: number
  pid: number
  /** Nanoseconds of the machine's monotonic clock. */
  at: bigint
}

export const stepsIn = (file: string): Step[] =>
  existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map(line => {
          const [step, pid, at] = line.split(' ')
          return { step: Number(step), pid: Number(pid), at: BigInt(at!) }
        })
    : []

export interface StepLog {
  /** The `log` of a run's input. */
  file: string
  steps(): number[]
  all(): Step[]
  /** Resolves when this many steps have begun; rejects after `ms` (30 s). */
  begun(count: number, ms?: number): Promise<Step[]>
  /** Ends the harm `hold`. */
  release(): void
}

/** Creates logs in a new folder; `remove` deletes it. */
export function stepLogs(): { log(): StepLog; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'weft-steps-'))
  let n = 0
  return {
    log() {
      const file = join(folder, `${++n}.log`)
      writeFileSync(file, '')
      const all = () => stepsIn(file)
      return {
        file,
        all,
        steps: () => all().map(({ step }) => step),
        async begun(count, ms) {
          await until(() => all().length >= count, ms)
          return all()
        },
        release: () => writeFileSync(`${file}.released`, ''),
      }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
