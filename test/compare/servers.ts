/** Compares both servers of a language over a list of cases. */
import { join } from 'node:path'
import PQueue from 'p-queue'
import { root } from '../../cli/root.js'
import { devServer } from '../../scripts/bench/peer-js.js'
import { benchPython, pythonDevServer } from '../../scripts/bench/peer-python.js'
import { type Kind, type Server, weft } from '../../scripts/bench/server.js'
import type { Call, Case, Language } from './case.js'
import { type Answer, type Saved, send } from './client.js'
import { compareAnswers, openIds } from './differ.js'
import { knownOf } from './known.js'
import { lineOf } from './lines.js'
import { noScores, type Scores, scorerOf } from './score.js'

/** The official servers look for runs once in a while: a case that waits for one lets others go on. */
const AT_ONCE = 12
/** A slow server must not be counted as a silent one. */
const SCORED_AT_ONCE = 4
/** Differences that are printed for one call. */
const SHOWN = 3

export interface Score {
  comparisons: number
  equal: number
  known: number
  unexplained: number
}

type Say = (line: string) => void

/** Starts both servers, and says each difference that no row explains. */
export async function compareServers(language: Language, cases: readonly Case[], say: Say): Promise<Score> {
  const score: Score = { comparisons: 0, equal: 0, known: 0, unexplained: 0 }
  const kinds = await kindsOf(language, say)
  await withServers([kinds.weft, kinds.official], language, ([ours, theirs]) => {
    const place = { ours: ours!, theirs: theirs!, language, score, say }
    return inTurn(cases, one => execute(one, place))
  })
  return score
}

/** Starts the official server beside the one at `url`, which has the same application and nothing stored. */
export async function scoreServer(url: string, language: Language, cases: readonly Case[], say: Say): Promise<Scores> {
  const scores = noScores()
  const { official } = await kindsOf(language, say)
  await withServers([official], language, ([theirs]) =>
    inTurn(cases, scorerOf({ scored: url, official: theirs!, say }, scores), SCORED_AT_ONCE),
  )
  return scores
}

async function kindsOf(language: Language, say: Say): Promise<{ weft: Kind; official: Kind }> {
  if (language === 'javascript') return { weft: weft(), official: await devServer(say) }
  const python = await benchPython()
  return { weft: weft({ env: { WEFT_PYTHON: python } }), official: pythonDevServer(python) }
}

/** Gives the bases of started servers. */
async function withServers(kinds: readonly Kind[], language: Language, use: (bases: string[]) => Promise<void>) {
  const app = join(root, 'test/apps/compare', language)
  const servers: Server[] = []
  try {
    for (const kind of kinds) servers.push(await kind.start({ app }))
    await use(servers.map(({ port }) => `http://127.0.0.1:${port}`))
  } finally {
    await Promise.all(servers.map(server => server.stop()))
  }
}

async function inTurn(cases: readonly Case[], one: (one: Case) => Promise<void>, concurrency = AT_ONCE): Promise<void> {
  const together = new PQueue({ concurrency })
  await together.addAll(cases.filter(({ alone }) => !alone).map(each => () => one(each)))
  for (const each of cases.filter(({ alone }) => alone)) await one(each)
}

interface Place {
  ours: string
  theirs: string
  language: Language
  score: Score
  say: Say
}

async function execute({ name, calls }: Case, { ours, theirs, language, score, say }: Place): Promise<void> {
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
      for (const difference of unknown.slice(0, SHOWN)) say(lineOf(place, difference, ['ours', 'theirs']))
      if (unknown.length > SHOWN) say(`    and ${unknown.length - SHOWN} more`)
      // The next steps depend on it.
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
