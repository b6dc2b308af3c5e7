/** `npm run compare`: sends the same calls to Weft and to the official development server, and compares the answers. */
import { join } from 'node:path'
import { inspect } from 'node:util'
import PQueue from 'p-queue'
import { root } from '../../cli/root.js'
import { UserError } from '../../cli/user-error.js'
import { devServer } from '../../scripts/bench/peer-js.js'
import { benchPython, pythonDevServer } from '../../scripts/bench/peer-python.js'
import { type Kind, type Server, weft } from '../../scripts/bench/server.js'
import type { Call, Case, Language } from './case.js'
import { casesOf } from './cases.js'
import { type Answer, type Saved, send } from './client.js'
import { ABSENT, compareAnswers, type Difference, openIds } from './differ.js'
import { knownOf } from './known.js'
import { HELP, optionsOf } from './options.js'

/** The official servers look for runs once in a while: a case that waits for one lets others go on. */
const AT_ONCE = 12
/** Differences that are printed for one call. */
const SHOWN = 3

interface Score {
  comparisons: number
  equal: number
  known: number
  unexplained: number
}

async function main(args: string[]): Promise<void> {
  const options = optionsOf(args)
  if (options === null) return say(HELP)
  let unexplained = 0
  for (const language of options.languages) {
    const cases = casesOf(language, options.seed).filter(({ name }) => options.only.test(name))
    if (options.list) for (const { name } of cases) say(name)
    else unexplained += (await compareServers(language, cases, options.seed)).unexplained
  }
  process.exitCode = unexplained === 0 ? 0 : 1
}

async function compareServers(language: Language, cases: readonly Case[], seed: number): Promise<Score> {
  const app = join(root, 'test/apps/compare', language)
  const python = language === 'python' ? await benchPython() : null
  const kinds: Kind[] = [
    weft({ app, env: python === null ? {} : { WEFT_PYTHON: python } }),
    python === null ? await devServer(say) : pythonDevServer(python),
  ]
  say(`${language}, seed ${seed}`)
  const servers: Server[] = []
  const score: Score = { comparisons: 0, equal: 0, known: 0, unexplained: 0 }
  try {
    for (const kind of kinds) servers.push(await kind.start({ app }))
    const [ours, theirs] = servers.map(({ port }) => `http://127.0.0.1:${port}`) as [string, string]
    const place = { ours, theirs, language, score }
    const together = new PQueue({ concurrency: AT_ONCE })
    await together.addAll(cases.filter(({ alone }) => !alone).map(one => () => execute(one, place)))
    for (const one of cases.filter(({ alone }) => alone)) await execute(one, place)
  } finally {
    await Promise.all(servers.map(server => server.stop()))
  }
  const { comparisons, equal, known, unexplained } = score
  say(
    `${language}: ${comparisons} comparisons, ${equal} equal, ${known} differ on purpose, ${unexplained} unexplained` +
      ` (seed ${seed})`,
  )
  return score
}

interface Place {
  ours: string
  theirs: string
  language: Language
  score: Score
}

async function execute({ name, calls }: Case, { ours, theirs, language, score }: Place): Promise<void> {
  const [own, other] = [{ case: name }, { case: name }]
  const ids = openIds()
  for (const [number, call] of calls.entries()) {
    const place = `${name} ${number + 1} ${call.call}`
    try {
      const answers = await Promise.all([ask('ours', ours, call, own), ask('theirs', theirs, call, other)])
      if (call.silent) continue
      score.comparisons++
      const found = compareAnswers(...answers, ids)
      const unknown = found.filter(difference => knownOf(language, place, difference) === null)
      if (found.length === 0) score.equal++
      else if (unknown.length === 0) score.known++
      else score.unexplained++
      for (const difference of unknown.slice(0, SHOWN)) print(place, difference)
      if (unknown.length > SHOWN) say(`    and ${unknown.length - SHOWN} more`)
      // What follows depends on it.
      if (answers[0].status !== answers[1].status) return
    } catch (error) {
      score.comparisons++
      score.unexplained++
      const { message, cause } = error as Error
      say(`${place}\n    ${message} ${cause ?? ''}`)
      return
    }
  }
}

const ask = (whose: string, base: string, call: Call, saved: Saved): Promise<Answer> =>
  send(base, call, saved).catch(error => {
    throw new Error(`no answer of ${whose}: ${error.message}`, { cause: error.cause })
  })

function print(place: string, { path, ours, theirs }: Difference): void {
  say(`${place} ${path}\n    ours   ${short(ours)}\n    theirs ${short(theirs)}`)
}

function short(value: unknown): string {
  if (value === ABSENT) return '(absent)'
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? inspect(value))
  return text.length > 240 ? `${text.slice(0, 240)}…` : text
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
