/** What the graphs of test/apps/faults say they did, in files of their own: so that a checker need not believe the server. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

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

export interface Deeds {
  /** The `log` of a run's input. */
  file: string
  steps(): number[]
  all(): Step[]
  /** Resolves when so many steps have begun. */
  begun(count: number): Promise<Step[]>
}

/** Makes logs in a folder of their own; `remove` deletes it. */
export function deedLogs(): { log(): Deeds; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'weft-deeds-'))
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
        async begun(count) {
          await until(() => all().length >= count)
          return all()
        },
      }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Asks again and again; throws when the answer is still no after `ms`. */
export async function until(done: () => boolean | Promise<boolean>, ms = 30_000): Promise<void> {
  const end = Date.now() + ms
  while (!(await done())) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain`)
    await sleep(20)
  }
}
