/** Which runs are listed: as the address keeps it, and as the API takes it. */
export const STATUSES = ['pending', 'running', 'success', 'error', 'interrupted', 'timeout'] as const
export type Status = (typeof STATUSES)[number]

const HOUR_MS = 3_600_000
export const SPANS = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS } as const
export type Span = keyof typeof SPANS

export interface Filter {
  status: readonly Status[]
  graph: string
  assistant: string
  thread: string
  /** A part of the error. */
  text: string
  /** A span that ends now, or a time as ISO 8601; empty: any time. */
  since: string
  /** Whether the list follows what happens. */
  live: boolean
}

export const isSpan = (since: string): since is Span => since in SPANS
const isTime = (since: string): boolean => !Number.isNaN(Date.parse(since))

export function readFilter(query: URLSearchParams): Filter {
  const of = (name: string) => query.get(name)?.trim() ?? ''
  const asked = of('status').split(',')
  const since = of('since')
  return {
    status: STATUSES.filter(status => asked.includes(status)),
    graph: of('graph'),
    assistant: of('assistant'),
    thread: of('thread'),
    text: of('text'),
    since: isSpan(since) || isTime(since) ? since : '',
    live: of('live') !== 'off',
  }
}

/** Without what is not asked for. */
export function queryOf({ status, live, ...texts }: Filter): URLSearchParams {
  const members = { status: status.join(), ...texts, live: live ? '' : 'off' }
  return new URLSearchParams(Object.entries(members).filter(([, value]) => value !== ''))
}

/** The begin of the time that is asked for, in ms; null: any. */
export const beginOf = ({ since }: Filter): number | null =>
  since === '' ? null : isSpan(since) ? Date.now() - SPANS[since] : Date.parse(since)

/** The body of a search or a count. */
export function conditionsOf(filter: Filter) {
  const { status, graph, assistant, thread, text } = filter
  const begin = beginOf(filter)
  return {
    status: status.length === 0 ? null : status,
    graph_id: graph || null,
    assistant_id: assistant || null,
    thread_id: thread || null,
    text: text || null,
    created_after: begin === null ? null : new Date(begin).toISOString(),
  }
}

/** Without the time. */
export const isAny = ({ status, graph, assistant, thread, text }: Filter): boolean =>
  status.length === 0 && [graph, assistant, thread, text].every(one => one === '')
