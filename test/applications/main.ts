/** `npm run applications`: takes applications that others published through a tour of the API. */
import { UserError } from '../../cli/user-error.js'
import { copyOf, type Installed, install } from './install.js'
import { HELP, optionsOf } from './options.js'
import { APPLICATIONS, type Application } from './table.js'
import { stepNames } from './tour.js'
import { visit } from './visit.js'

const NAME_WIDTH = 36

async function main(args: string[]): Promise<void> {
  const options = optionsOf(args)
  if (options === null) return say(HELP.trimEnd())
  const { from, fresh, official } = options
  if (from !== undefined) return report(from, () => copyOf(from, fresh), {}, official)
  const chosen = APPLICATIONS.map(one => [`${one.language}/${one.name}`, one] as const).filter(([name]) =>
    options.only.test(name),
  )
  if (chosen.length === 0) throw new UserError('--only matches no application: see --list', 2)
  for (const [name, application] of chosen)
    if (options.list) say(name)
    // The official server for JavaScript reads schemas from types, and fails with a file that TypeScript does not read.
    else await report(name, () => install(application, official), application, official)
}

/** Prints a row for each graph of it. */
async function report(
  name: string,
  prepare: () => Promise<Installed>,
  asks: Pick<Application, 'calls' | 'asks'>,
  official: boolean,
): Promise<void> {
  let installed: Installed | undefined
  try {
    installed = await prepare()
    for (const { graph, passed, failed } of await visit(installed, asks, official)) {
      const score = `${passed.length} of ${stepNames.length}`
      say(`${`${name} ${graph}`.padEnd(NAME_WIDTH)} ${score}${failed ? `: ${failed.step}: ${failed.why}` : ''}`)
      if (failed) process.exitCode = 1
    }
  } catch (error) {
    if (error instanceof UserError) throw error
    process.exitCode = 1
    say(`${name.padEnd(NAME_WIDTH)} not started: ${(error as Error).message}`)
  } finally {
    installed?.remove()
  }
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  // Servers end with this process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof UserError)) throw error
  process.stderr.write(`applications: ${error.message}\n`)
  process.exitCode = error.exitCode
}
