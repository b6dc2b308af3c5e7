/** Differences that are on purpose. Each names its row of docs/differences.md, where the reason is. */
import type { Language } from './case.js'
import { ABSENT, type Difference } from './differ.js'

export interface Known {
  /** The first cell of the row. */
  row: string
  language?: Language
  /** Matches `<case> <number> <call> <path>`. */
  at: RegExp
  /** Whether the values are those of the row; any unless given. */
  when?(difference: Difference): boolean
}

type When = (difference: Difference) => boolean

const onlyOurs: When = ({ theirs }) => theirs === ABSENT
const onlyTheirs: When = ({ ours }) => ours === ABSENT
const statusOf = (value: unknown): number => Number(`${value}`.slice(0, 3))
const statuses =
  (own: readonly number[], others: readonly number[]): When =>
  ({ ours, theirs }) =>
    own.includes(statusOf(ours)) && others.includes(statusOf(theirs))

const OK = [200, 202, 204]
const REFUSED = [400, 404, 405, 409, 422]

// biome-ignore format: a table
export const KNOWN: readonly Known[] = [
  { row: 'Status and form of an error', at: / status$/, when: statuses(REFUSED, [...REFUSED, 500]) },
  { row: 'Status and form of an error', at: / (form|headers\.content-type)$/, when: ({ theirs }) => theirs !== 'application/json' },
  { row: '`null` for an optional field', at: /\/null( fields| config| members)? \d.* status$/, when: statuses(OK, REFUSED) },
  { row: 'A graph id in place of an assistant id', at: / status$/, when: d => /Invalid assistant ID|"format":"uuid"|Invalid uuid/.test(`${d.theirs}`) && statusOf(d.ours) === 200 },
  { row: 'Members that only Weft sends', at: /\.(updated_at|state_updated_at|checkpoint_map|checkpoint_ns|checkpoint_id|interrupts|thread_id|run_id|graph_id|stream_subgraphs|assistant_id)$/, when: onlyOurs },
  { row: 'Members that only Weft sends', language: 'python', at: /graph.* body\.nodes\.\d+\.data\.id$/, when: onlyOurs },
  { row: 'Members that Weft leaves out', at: /\.(score|error|checkpoint_id|parent_checkpoint_id|langgraph_auth_user_id|ls_integration)$/, when: d => onlyTheirs(d) },
  { row: 'Members that Weft leaves out', at: / body(\.tasks\.\d+\.state)?\.metadata$/, when: ({ ours, theirs }) => JSON.stringify(ours) === '{}' && (theirs === null || theirs === ABSENT) },
  { row: '`user_id` without a caller', at: /\.user_id$/, when: ({ ours, theirs }) => (ours === ABSENT || ours === null) && theirs === '' },
  { row: '`config` of a thread', at: / (GET|POST|PATCH) \/threads\S* body(\.\d+)?\.config\.\w+$/, when: onlyTheirs },
  { row: '`Content-Location` of a run without a thread', language: 'python', at: / POST \/runs\/(wait|stream) headers\.(content-)?location$/ },
  { row: 'Ids of events', at: / events\.\d+\.numbered$/, when: ({ ours }) => ours === true },
  { row: 'The message of an error in a value', language: 'python', at: /message$|\.data$/, when: ({ theirs }) => theirs === 'An internal error occurred' },
  { row: 'Order of items', at: /^items\/(filter|search)\/.* body\.items\./ },
  { row: 'The payload of a cron', language: 'python', at: / \S*crons\S* body(\.\d+)?\.payload\./, when: onlyTheirs },
  { row: 'Webhooks of hosts that cannot be found', at: / status$/, when: ({ theirs }) => /Webhook host blocked/.test(`${theirs}`) },
  { row: 'The answer to a deletion of an assistant', language: 'javascript', at: /DELETE \/assistants\S* status$/, when: statuses([204], [200]) },
  { row: 'Crons of JavaScript', language: 'javascript', at: /^(crons|wrong\/cron)\/.* status$/ },
  { row: '`POST /assistants/{id}/latest`', at: /^assistants\/versions \d+ / },
  { row: 'A join of an unknown run', at: /\/join status$/, when: statuses([404], [200]) },
  { row: 'A resume with `null`', at: /^(interrupts|values)\/\S*(resume )?null \d/ },
  { row: 'A resume when nothing waits', at: /^interrupts\/resume of nothing \d/ },
  { row: '`feedback_keys`', language: 'python', at: /feedback keys \d/ },
  { row: 'Values that only pickle can store', language: 'python', at: /^kinds\/(state|interrupt)\/(path|range|complex|large integer) \d/ },
  { row: 'Values in `/state` and `/history`', language: 'python', at: /^kinds\/.*(\/state|\/history)\S* body\..*(value|born|interrupts\.\d+)/ },
  { row: 'A deletion of the newest run', at: /^runs\/list \d+ (GET|POST) \/threads\/\{thread\}(\/state|\/history)?\S* body\./ },
]

/** The row that says why; null: nothing explains it. */
export function knownOf(language: Language, place: string, difference: Difference): Known | null {
  return (
    KNOWN.find(
      known =>
        (known.language ?? language) === language &&
        known.at.test(`${place} ${difference.path}`) &&
        (known.when?.(difference) ?? true),
    ) ?? null
  )
}
