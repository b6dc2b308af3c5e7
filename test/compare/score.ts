/**
 * Scores a server against the official one: of each family of calls, how many answers are alike. The number of calls is
 * that of the table of cases, whatever the server answers: a call that it leaves without an answer is not alike.
 */
import type { Call, Case } from './case.js'
import { type Answer, CALL_MS, send } from './client.js'
import { ABSENT, compareAnswers, type Difference, type Ids, openIds } from './differ.js'
import { lineOf } from './lines.js'

export interface Tally {
  calls: number
  /** The status is that of the official server. */
  status: number
  /** And all that the official server sends is there, but for headers and metadata; there may be more. */
  content: number
  /** And headers and metadata are there, too. */
  alike: number
}

export type Scores = Map<string, Tally>

export interface Scored {
  /** Base of the scored server. */
  scored: string
  official: string
  /** Is told where an answer is not alike. */
  say(line: string): void
  /** The time that the scored server has for an answer; that of the official one unless given. */
  answerMs?: number
}

/** After so many calls of a family without an answer, its others are not sent. */
const PATIENCE = 25

/** The first whose patterns match. Odd input is apart: few clients send it. */
const FAMILIES: readonly (readonly [name: string, ofCase: RegExp, ofCall: RegExp])[] = [
  ['wrong input', /^wrong\//, /./],
  ['values beyond JSON', /^(values|kinds)\//, /./],
  ['MCP', /./, / \/mcp/],
  ['A2A', /./, / \/a2a\//],
  ['crons', /./, /\/runs\/crons/],
  ['streams', /./, /\/stream\b/],
  ['runs', /./, / (\/threads\/[^/]+)?\/runs\b/],
  ['threads', /./, / \/threads\b/],
  ['assistants', /./, / \/assistants\b/],
  ['store', /./, / \/store\//],
  ['system', /./, /./],
]

const familyOf = (name: string, { call }: Call): string =>
  FAMILIES.find(([, ofCase, ofCall]) => ofCase.test(name) && ofCall.test(call))![0]

export const noScores = (): Scores =>
  new Map(FAMILIES.map(([name]) => [name, { calls: 0, status: 0, content: 0, alike: 0 }]))

/** Executes a case on both servers, and counts. It goes on after a difference, with the ids that each server has given. */
export function scorerOf({ scored, official, say, answerMs = CALL_MS }: Scored, scores: Scores) {
  const unanswered = new Map<string, number>()

  return async ({ name, calls }: Case): Promise<void> => {
    const [own, other] = [{ case: name }, { case: name }]
    const ids = openIds()
    let isLost = false
    for (const [number, call] of calls.entries()) {
      const place = `${name} ${number + 1} ${call.call}`
      const family = familyOf(name, call)
      const misses = unanswered.get(family) ?? 0
      isLost ||= misses >= PATIENCE
      let found: Difference[] | null = null
      if (!isLost) {
        const [ours, theirs] = await Promise.allSettled([
          send(scored, call, own, answerMs),
          send(official, call, other),
        ])
        // Nothing to compare with.
        if (theirs.status === 'rejected') return say(`${place}\n    no answer of the official server: ${theirs.reason}`)
        isLost = ours.status === 'rejected'
        if (ours.status === 'rejected') {
          unanswered.set(family, misses + 1)
          say(`${place}\n    no answer: ${ours.reason} ${ours.reason.cause ?? ''}`)
        } else if (!call.silent) found = differencesOf(ours.value, theirs.value, ids)
      }
      if (call.silent) continue
      const first = count(scores.get(family)!, found)
      if (first !== null) say(lineOf(place, first, ['scored', 'official']))
    }
  }
}

const ASIDE = /^headers\.|\bmetadata\b/

/** Also of an answer that is nested too deeply to be compared. */
function differencesOf(ours: Answer, theirs: Answer, ids: Ids): Difference[] {
  try {
    return compareAnswers(ours, theirs, ids)
  } catch (error) {
    return [{ path: '', ours: `${error}`, theirs: '' }]
  }
}

/** `found` null: there was no answer. Gives the first difference that matters. */
function count(tally: Tally, found: readonly Difference[] | null): Difference | null {
  tally.calls++
  if (found === null) return null
  const important = found.filter(difference => !isAddition(difference))
  const [first = null] = important
  if (first?.path !== 'status') tally.status++
  if (important.every(({ path }) => ASIDE.test(path))) tally.content++
  if (first === null) tally.alike++
  return first
}

/** A client of the official server does not notice a member more, an id of an event, or no member in place of `null`. */
function isAddition({ path, ours, theirs }: Difference): boolean {
  if (path.endsWith('.numbered')) return ours === true
  const isElement = /(^|\.)\d+$/.test(path)
  return !isElement && (theirs === ABSENT || (theirs === null && ours === ABSENT))
}

/** Rows of a table in Markdown. */
export function rowsOf(scores: Scores): string[] {
  const sum: Tally = { calls: 0, status: 0, content: 0, alike: 0 }
  for (const tally of scores.values()) for (const name of Object.keys(sum) as (keyof Tally)[]) sum[name] += tally[name]
  const rows = [...scores, ['all', sum] as const]
    .filter(([, { calls }]) => calls > 0)
    .map(([family, { calls, status, content, alike }]) => {
      const of = (part: number) => `${part} (${Math.floor((100 * part) / calls)} %)`
      return `| ${family} | ${calls} | ${of(status)} | ${of(content)} | ${of(alike)} |`
    })
  return ['| family | calls | same status | same content | alike |', '|---|---|---|---|---|', ...rows]
}
