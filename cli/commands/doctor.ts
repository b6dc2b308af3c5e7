/** `weft doctor`: checks what Weft needs on this machine, and says what to do about what is missing. It changes nothing. */

import { readSettings } from '../read-settings.js'
import { paint, printJson, wrap } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { CHECKS, type Finding } from './doctor-checks.js'

interface DoctorFlags {
  app?: string
  data?: string
  port?: number
  json?: true
}

const MARKS = { ok: ['✓', 'green'], note: ['!', 'yellow'], wrong: ['✗', 'red'] } as const

export async function doctor({ json, ...flags }: DoctorFlags): Promise<void> {
  const config = readSettings(flags)
  const findings: (Finding & { check: string })[] = []
  const width = Math.min(process.stdout.columns ?? 80, 100)
  for (const [check, look] of Object.entries(CHECKS)) {
    const found = await look(config).catch(
      (error: Error): Finding => ({ state: 'wrong', found: error.message.split('\n')[0]!, help: 'see the message' }),
    )
    findings.push({ check, ...found })
    if (json) continue
    const [mark, colour] = MARKS[found.state]
    process.stdout.write(`${paint(mark, colour)} ${check.padEnd(12)} ${found.found}\n`)
    for (const line of found.help === undefined ? [] : wrap(found.help, width - 15))
      process.stdout.write(`${' '.repeat(15)}${line}\n`)
  }
  if (json) printJson(findings)
  const wrong = findings.filter(({ state }) => state === 'wrong')
  if (wrong.length > 0) throw new UserError(`not in order: ${wrong.map(({ check }) => check).join(', ')}`)
}
