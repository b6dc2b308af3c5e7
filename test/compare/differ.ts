/**
 * Where two answers differ. Ids are equal when the same id of one server always stands where the same id of the other
 * does; times are equal to each other; facts about a server itself are not compared.
 */
import type { Answer } from './client.js'

export interface Difference {
  path: string
  ours: unknown
  theirs: unknown
}

export const ABSENT = Symbol('absent')

/** Which id of theirs belongs to which of ours, for the calls of one case. */
export interface Ids {
  ours: Map<string, string>
  theirs: Map<string, string>
}

export const openIds = (): Ids => ({ ours: new Map(), theirs: new Map() })

/** Also those of interrupts, tasks and namespaces, inside a text. */
const ID = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/gi
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
/** They say which server it is, and where; `kwargs` is for that server alone. */
const OF_SERVER =
  /^(kwargs|serverInfo|__(?!interrupt__|error__).+__|langgraph_auth_.*|langgraph_(version|api_version|api_url|host|plan|request_id|stream)|langgraph-version|langsmith.*|LANGSMITH.*|revision_id|user-agent|x-.*|lc_versions)$/

export function compareAnswers(ours: Answer, theirs: Answer, ids: Ids): Difference[] {
  if (ours.status !== theirs.status) return [{ path: 'status', ours: shown(ours), theirs: shown(theirs) }]
  // Sentences of errors differ; their form must not.
  if (ours.status >= 400) return compare(formOf(ours), formOf(theirs), ids)
  return compare(ours, theirs, ids)
}

export function compare(ours: unknown, theirs: unknown, ids: Ids, path = ''): Difference[] {
  if (typeof ours === 'string' && typeof theirs === 'string' && sameText(ours, theirs, ids)) return []
  // Nodes that run beside each other ask in any order; of two lists that are not as long, nothing belongs together.
  if (path.endsWith('__interrupt__') && Array.isArray(ours) && Array.isArray(theirs)) {
    if (ours.length !== theirs.length) return [{ path, ours, theirs }]
    const [own, others] = [ours, theirs].map(list => [...list].sort(byQuestion))
    return compare(own, others, ids, `${path}.sorted`)
  }
  if (Array.isArray(ours) && Array.isArray(theirs)) {
    const length = Math.max(ours.length, theirs.length)
    return Array.from({ length }).flatMap((_, at) =>
      compare(at in ours ? ours[at] : ABSENT, at in theirs ? theirs[at] : ABSENT, ids, `${path}.${at}`),
    )
  }
  if (isObject(ours) && isObject(theirs) && Array.isArray(ours) === Array.isArray(theirs)) {
    const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].filter(name => !OF_SERVER.test(name))
    const found = pairNames(names, ours, theirs, ids)
    return found.flatMap(([name, own, other]) => compare(own, other, ids, path === '' ? name : `${path}.${name}`))
  }
  return Object.is(ours, theirs) ? [] : [{ path, ours, theirs }]
}

/** Members by name; a name that is an id belongs to that of the other server in the same place. */
function pairNames(names: string[], ours: Members, theirs: Members, ids: Ids): [string, unknown, unknown][] {
  const of = (from: Members, name: string) => (Object.hasOwn(from, name) ? from[name] : ABSENT)
  const others = names.filter(name => !Object.hasOwn(ours, name))
  const paired = names
    .filter(name => Object.hasOwn(ours, name))
    .map((name): [string, unknown, unknown] => {
      const at = Object.hasOwn(theirs, name)
        ? -1
        : others.findIndex(other => name.search(ID) !== -1 && sameText(name, other, ids))
      return [name.replace(ID, '<id>'), ours[name], of(theirs, at === -1 ? name : others.splice(at, 1)[0]!)]
    })
  return [...paired, ...others.map((name): [string, unknown, unknown] => [name, ABSENT, theirs[name]])]
}

const questionOf = (asked: unknown): string => JSON.stringify((asked as { value?: unknown } | null)?.value) ?? ''
const byQuestion = (a: unknown, b: unknown): number => questionOf(a).localeCompare(questionOf(b))

type Members = { [name: string]: unknown }
const isObject = (value: unknown): value is Members => typeof value === 'object' && value !== null

function sameText(ours: string, theirs: string, ids: Ids): boolean {
  if (TIME.test(ours) && TIME.test(theirs)) return true
  if (ours.replace(ID, '<id>') !== theirs.replace(ID, '<id>')) return false
  const [own, others] = [ours.match(ID) ?? [], theirs.match(ID) ?? []]
  return own.every((id, at) => belong(id, others[at]!, ids))
}

function belong(own: string, other: string, { ours, theirs }: Ids): boolean {
  if (!ours.has(own) && !theirs.has(other)) {
    ours.set(own, other)
    theirs.set(other, own)
  }
  return ours.get(own) === other && theirs.get(other) === own
}

function formOf({ status, headers, body }: Answer): object {
  return { status, headers, form: isObject(body) ? Object.keys(body).sort().join() : typeof body }
}

function shown({ status, body, events }: Answer): string {
  const text = JSON.stringify(body ?? events) ?? ''
  return `${status} ${text.length > 200 ? `${text.slice(0, 200)}…` : text}`
}
