/** `npm run compare`: sends the same calls to Weft, or to a server at an address, and to the official development server, and compares the answers. */
import { UserError } from '../../cli/user-error.js'
import { casesOf } from './cases.js'
import { HELP, optionsOf } from './options.js'
import { rowsOf } from './score.js'
import { compareServers, scoreServer } from './servers.js'

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
    if (options.url !== null) {
      await requireServer(options.url)
      const scores = await scoreServer(options.url, language, cases, options.details ? say : () => {})
      for (const row of rowsOf(scores)) say(row)
      continue
    }
    const score = await compareServers(language, cases, say)
    unexplained += score.unexplained
    say(
      `${language}: ${score.comparisons} comparisons, ${score.equal} equal, ${score.known} differ on purpose, ` +
        `${score.unexplained} unexplained (seed ${options.seed})`,
    )
  }
  process.exitCode = unexplained === 0 ? 0 : 1
}

/** Any answer is one: what it is, is for the score. */
async function requireServer(url: string): Promise<void> {
  await fetch(`${url}/ok`, { signal: AbortSignal.timeout(20_000) }).catch(error => {
    throw new UserError(`no server answers at ${url}: ${error.cause?.message ?? error.message}`)
  })
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
