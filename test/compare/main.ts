/** `npm run compare`: sends the same calls to Weft and to the official development server, and compares the answers. */
import { UserError } from '../../cli/user-error.js'
import { casesOf } from './cases.js'
import { HELP, optionsOf } from './options.js'
import { compareServers } from './servers.js'

async function main(args: string[]): Promise<void> {
  const options = optionsOf(args)
  if (options === null) return say(HELP)
  let unexplained = 0
  for (const language of options.languages) {
    const cases = casesOf(language, options.seed).filter(({ name }) => options.only.test(name))
    if (options.list) {
      for (const { name } of cases) say(name)
      continue
    }
    say(`${language}, seed ${options.seed}`)
    const score = await compareServers(language, cases, say)
    unexplained += score.unexplained
    say(
      `${language}: ${score.comparisons} comparisons, ${score.equal} equal, ${score.known} differ on purpose, ` +
        `${score.unexplained} unexplained (seed ${options.seed})`,
    )
  }
  process.exitCode = unexplained === 0 ? 0 : 1
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  // Servers end with this process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof UserError)) throw error
  process.stderr.write(`compare: ${error.message}\n`)
  process.exitCode = error.exitCode
}
