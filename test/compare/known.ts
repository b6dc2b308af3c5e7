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
const statusOf = (value: unknown): number => Number(String(value).slice(0, 3))
const statuses =
  (own: readonly number[], others: readonly number[]): When =>
  ({ ours, theirs }) =>
    own.includes(statusOf(ours)) && others.includes(statusOf(theirs))

const OK = [200, 202, 204]
const REFUSED = [400, 404, 405, 409, 422]

/** Cases of the family `wrong`, and others, whose input Weft refuses. */
const WRONG = new RegExp(
  `^(${[
    'wrong/run/(interrupt_before|interrupt_after|if_not_exists|multitask_strategy|after_seconds|checkpoint|context|durability|webhook)/',
    'wrong/(query|(items|namespaces|history)/(limit|offset|max_depth)|search of threads/extract|update/checkpoint_id)[/=]?',
    'wrong/(cron/end_time|thread/(ttl|thread_id)|assistant/(assistant_id|context|graph_id))/',
    'crons/(create|thread)/wrong end',
    'items/wrong key/0',
    'routes/items/refresh_ttl',
    'routes/system/ok\\?check_db=x',
    'state/(update/by an unknown checkpoint|at a checkpoint)',
    'threads/create/supersteps without a graph',
    'assistants/create/unknown graph',
    'multitask/cancel/.action=absent',
    'values/text in .*/(beyond a double|half of a surrogate pair|deep nesting)',
  ].join('|')})`,
)

/** Cases whose input only Weft takes. */
const TAKEN = new RegExp(
  `^(${[
    'crons/(change|search|create/input of)',
    'streams/field/no mode',
    'wrong/thread/ttl',
    'items/(filter/(list|unknown)|wrong namespace/6)',
    'routes/(system/ok\\?check_db=false|runs/state by checkpoint)',
    'state/(update/a list|history/before|patch|at a checkpoint)',
    'streams/\\w+/tools',
    'threads/(create/ttl as|prune|patch|search/values)',
    'wrong/(update/as_node|search of assistants/graph_id|cron/input|history/before|run/checkpoint_id/text|items/namespace_prefix)',
    'wrong/[\\w ]+/body/(empty|null)',
    'values/update/like a serialized object',
    'multitask/cancel (several|by status)',
  ].join('|')})`,
)

// biome-ignore format: a table
export const KNOWN: readonly Known[] = [
  { row: 'Status and form of an error', at: / status$/, when: statuses(REFUSED, [...REFUSED, 500]) },
  { row: 'Status and form of an error', at: / (form|headers\.content-type)$/, when: ({ theirs }) => theirs !== 'application/json' },
  { row: '`null` for an optional field', at: /\/null( fields| config| members)? \d.* status$/, when: statuses(OK, REFUSED) },
  { row: 'A graph id in place of an assistant id', at: / status$/, when: d => /Invalid assistant ID|"format":"uuid"|Invalid uuid/.test(String(d.theirs)) && statusOf(d.ours) === 200 },
  { row: 'Members that only Weft sends', at: /\.(updated_at|state_updated_at|checkpoint_map|checkpoint_ns|checkpoint_id|interrupts|thread_id|run_id|graph_id|assistant_id|cancel_reason|ttl|configurable|parent_config|tool_call_chunks|error|checkpoint|parent_checkpoint|extracted)$/, when: onlyOurs },
  { row: 'Members that only Weft sends', language: 'python', at: /graph.* body\.nodes\.\d+\.data\.id$/, when: onlyOurs },
  { row: 'Members that Weft leaves out', at: /\.(score|error|checkpoint_id|parent_checkpoint_id|langgraph_auth_user_id|ls_integration)$/, when: d => onlyTheirs(d) },
  { row: 'Members that Weft leaves out', at: /GET \/ok\S* body\.services$/, when: onlyTheirs },
  { row: 'Members that Weft leaves out', at: / body(\.tasks\.\d+\.state)?\.metadata$/, when: ({ ours, theirs }) => JSON.stringify(ours) === '{}' && (theirs === null || theirs === ABSENT) },
  { row: '`user_id` without a caller', at: /\.user_id$/, when: ({ ours, theirs }) => (ours === ABSENT || ours === null) && theirs === '' },
  { row: '`config` of a thread', at: / (GET|POST|PATCH) \/threads\S* body(\.\d+)?\.config\.\w+$/, when: onlyTheirs },
  { row: '`Content-Location` of a run without a thread', language: 'python', at: / POST \/runs\/(wait|stream) headers\.(content-)?location$/ },
  { row: 'Ids of events', at: / events\.\d+\.numbered$/, when: ({ ours }) => ours === true },
  { row: 'The message of an error in a value', language: 'python', at: /message$|\.data$/, when: ({ theirs }) => theirs === 'An internal error occurred' },
  { row: 'Order of items', at: /^items\/(filter|search)\/.* body\.items\./ },
  { row: 'The payload of a cron', language: 'python', at: / \S*crons\S* body(\.\d+)?\.payload\./, when: onlyTheirs },
  { row: 'Webhooks of hosts that cannot be found', at: / status$/, when: ({ theirs }) => /Webhook host blocked/.test(String(theirs)) },
  { row: 'The answer to a deletion of an assistant', language: 'javascript', at: /DELETE \/assistants\S* status$/, when: statuses([204], [200]) },
  { row: 'Crons of JavaScript', language: 'javascript', at: /^(crons|wrong\/cron)\/.* status$/ },
  { row: '`POST /assistants/{id}/latest`', at: /^assistants\/versions \d+ / },
  { row: 'A join of an unknown run', at: /\/join status$/, when: statuses([404], [200]) },
  { row: 'A resume with `null`', at: /^(interrupts\/\w+\/resume null|values\/resume\/null|wrong\/run\/command\/object) \d/ },
  { row: 'A resume when nothing waits', at: /^interrupts\/resume of nothing \d/ },
  { row: '`feedback_keys` without LangSmith', at: /feedback keys \d/ },
  { row: 'Values that only pickle can store', language: 'python', at: /^kinds\/(state|interrupt)\/(path|range|complex|large integer) \d/ },
  { row: 'Values in `/state` and `/history`', language: 'python', at: /^kinds\/.*(\/state|\/history)\S* body\..*(value|born|interrupts\.\d+)/ },
  { row: 'A deletion of the newest run', at: /^runs\/list \d+ (GET|POST) \/threads\/\{thread\}(\/state|\/history)?\S* body\./ },
  { row: 'Metadata of a thread in its runs', at: /^(config|runs|values|multitask|interrupts)\/.*metadata\.(source|of|graph_id|assistant_id|purpose)$/ },
  { row: 'Metadata of checkpoints', at: / (GET|POST) \/threads\S*(state|history)\S* body(\.\d+|\.tasks\.\d+\.state)*\.metadata\.\S+$/, when: onlyTheirs },
  { row: '`config.configurable` and `context` of an assistant', language: 'python', at: /^(assistants|config\/assistant|wrong\/assistant)\/.* (GET|POST|PATCH) \/assistants\S* body(\.\d+)?\.(config\.configurable|context)(\.\S+)?$/, when: onlyTheirs },
  { row: '`config.configurable` and `context` of an assistant', at: /^config\/assistant\/.* POST \/runs\/wait body\.seen\.(configurable|context)(\.\w+)?$/ },
  { row: '`config.configurable` and `context` of a run in JavaScript', language: 'javascript', at: /^config\/(run|without a thread)\/.*seen\.(context|configurable)(\.\w+)?$/, when: onlyOurs },
  { row: '`config` of a thread', language: 'javascript', at: /^config\/run\/.*seen\.configurable\.(depth|model|user_id)$/, when: onlyTheirs },
  { row: 'Results in `checkpoints` and `debug` of tasks that have not executed', language: 'javascript', at: /events\.\d+\.data(\.payload)?\.tasks\.\d+\.result$/, when: onlyTheirs },
  { row: 'Keys of a context that its schema does not have', language: 'python', at: /^config\/(run|without a thread)\/(unknown context|reserved names) .*seen\.context(\.\w+)?$/ },
  { row: '`wait` of an interrupted run', at: /^(interrupts|generated|threads|values|runs|routes\/runs)\/.* (POST \S*runs\/wait|GET \S*\/join) body\./, when: onlyOurs },
  { row: 'A join of an ended run', at: /^joins\/.*\/stream\S* events\./ },
  { row: 'A cancel that waits', at: /^multitask\/.*cancel\S* status$/, when: statuses([202, 204], [200, 204]) },
  { row: 'Deleting an active run', at: /delete while busy/ },
  { row: 'Crons whose end has passed', at: /^crons\/.*next_run_date$/, when: ({ ours }) => ours === null },
  { row: 'Metadata of a changed cron', at: /^crons\/change .*payload\.metadata\./ },
  { row: 'Values in `/state` and `/history`', language: 'python', at: /^kinds\/.* (body|events)\S*value/ },
  { row: '`1.0`, and integers beyond 64 bits', at: /(negative zero|whole fraction|10\^21) / },
  { row: 'Integers beyond 64 bits of Python graphs', language: 'python', at: /^kinds\/(custom|store)\/large integer \d/ },
  { row: 'NUL in a text', at: /./, when: ({ ours, theirs }) => String(ours).replaceAll('\0', '\ufffd') === theirs },
  { row: '`durability` of a run without a thread', language: 'python', at: /^runs\/without a thread\/durability/ },
  { row: '`error` of a thread after a cancel', language: 'python', at: /^multitask\/cancel.* GET \/threads\/\{thread\} body\.error$/, when: ({ ours, theirs }) => ours === null && (theirs as { error?: unknown }).error === 'UserInterrupt' },
  { row: 'A cancel of several runs that have ended', at: /^routes\/runs\/cancel action \d+ POST \/runs\/cancel\S* status$/, when: statuses([204], [404]) },
  { row: 'Integers beyond 2^53 in JavaScript graphs and handlers, in `structuredContent` of MCP, and in the control plane', language: 'javascript', at: /^values\/text in metadata\/.*large integer \d/ },
  { row: 'Tasks of A2A', language: 'python', at: /^routes\/a2a\/calls \d+ POST \S* body\.result\./ },
  { row: 'MCP and A2A of JavaScript', language: 'javascript', at: /^routes\/(mcp|a2a)\/.* status$/, when: ({ theirs }) => statusOf(theirs) === 404 },
  { row: 'Text of an error of JSON-RPC', language: 'python', at: /^routes\/(mcp|a2a)\/.* body\.error\.message$/ },
  { row: 'A cancel by status', language: 'python', at: /^multitask\/cancel by status \d GET / },
  { row: 'The copy of a thread', at: /^threads\/copy/ },
  { row: 'Searches by lists and ids', at: /^threads\/search\/(metadata list|ids|no ids) / },
  { row: 'Limit of a history', at: /\/history\S* body\.\d+$/, when: onlyOurs },
  { row: 'The values of a thread after an update of an older checkpoint', at: /^state\/update\/by checkpoint.* body\.values/ },
  { row: 'Steps of a run without a thread', at: /^streams\/.*checkpoints 1 POST \/runs\/stream events/ },
  { row: '`messages/complete` of a streamed message', at: /^(streams|generated)\/.*\/stream events\.\d+/, when: ({ ours, theirs }) => [ours, theirs].some(v => /^messages\//.test(String(v))) },
  { row: '`messages/complete` of a streamed message', at: /^streams\/chat\/.*messages.*\/stream events\./ },
  { row: 'Text of the error of a task', at: /tasks\.\d+\.error$/ },
  { row: '`Allow` of another method', at: / headers\.allow$/ },
  { row: 'An assistant without a name', at: /body\.name$/, when: ({ ours }) => ours === '' },
  { row: 'The content type of `wait`', language: 'javascript', at: / headers\.content-type$/, when: ({ theirs }) => theirs === 'text/plain' || theirs === ABSENT },
  { row: '`Location`', language: 'javascript', at: / headers\.(location|x-pagination-\w+)$/, when: onlyOurs },
  { row: 'Wrong fields', at: new RegExp(`${WRONG.source}.* status$`), when: statuses([400, 404, 422], [200, 201, 202, 204]) },
  { row: 'Inputs that only Weft takes', at: new RegExp(`${TAKEN.source}.* status$`), when: statuses(OK, [...REFUSED, 500]) },
  { row: 'A cancel of an ended run', at: /^multitask\/cancel.*cancel status$/, when: statuses([404, 409], [200, 202, 204]) },
  { row: 'An update that holds nothing', language: 'javascript', at: /events\.\d+\.data\.\w+$/, when: ({ ours, theirs }) => ours === null && JSON.stringify(theirs) === '{}' },
  { row: 'Values of JavaScript that JSON does not have', language: 'javascript', at: /^kinds\/\w+\/(bytes|buffer|set|map|big integer|empty|exception|function|symbol|infinity|not a number|undefined|undefined members|nested|sparse|negative zero) \d/ },
  { row: 'Values of JavaScript that JSON does not have', language: 'javascript', at: /^kinds\/store\/(message|document) \d/ },
  { row: 'Order of assistants', language: 'javascript', at: /^assistants\/search\/.* body\.\d+\./ },
  { row: 'Schemas and subgraphs of JavaScript', language: 'javascript', at: /^(assistants\/(schemas|subgraphs)|routes\/assistants\/recurse)/, when: ({ theirs }) => theirs === ABSENT || statusOf(theirs) === 500 },
  { row: 'The default of `multitask_strategy`', language: 'javascript', at: /multitask_strategy$/, when: ({ ours, theirs }) => ours === 'enqueue' && theirs === 'reject' },
  { row: '`wait` of an interrupted run', language: 'javascript', at: / body\.__interrupt__$/, when: ({ theirs }) => Array.isArray(theirs) && theirs.length < 2 },
  { row: 'Members that Weft leaves out', language: 'javascript', at: / body\.interrupts\.\S+$/, when: ({ ours, theirs }) => ours === ABSENT && JSON.stringify(theirs) === '[]' },
  { row: 'An empty command', language: 'javascript', at: /^interrupts\/\w+\/empty \d/ },
  { row: '`Content-Location` of a join', language: 'javascript', at: / headers\.content-location$/, when: onlyOurs },
  { row: 'Text of the error of a task', language: 'javascript', at: /__error__\.(error|message)$/ },
  { row: 'Order of runs', language: 'javascript', at: / GET \/threads\/\{thread\}\/runs\S* body\.\d+/ },
  { row: '`stream_subgraphs` in JavaScript', language: 'javascript', at: /^(streams\/\w+\/.*with subgraphs|runs\/(create|without a thread)\/subgraphs) \d/, when: ({ ours, theirs }) => String(theirs) === 'error' || ours === ABSENT || theirs === ABSENT },
  { row: '`stream_subgraphs` in JavaScript', language: 'javascript', at: /^runs\/(create|without a thread)\/subgraphs \d/ },
  { row: 'Ids of messages in JavaScript', language: 'javascript', at: /messages\.\d+\.id$|\.\d+\.id$/, when: ({ theirs }) => String(theirs).startsWith('run-') },
  { row: '`durability` in JavaScript', language: 'javascript', at: /^state\/durability\/\w+\/exit \d.*(history\S* body\.\d+|parent_checkpoint)/ },
  { row: 'Threads of failed and stopped runs in JavaScript', language: 'javascript', at: /^(runs|state|interrupts|generated|multitask|threads)\/.* GET \/threads\/\{thread\} body\.(status|values|interrupts)/ },
  { row: 'Text of the error of a task', language: 'javascript', at: /^runs\/failure\/key \d/ },
  { row: 'Reserved names in metadata', at: /^config\/\w+\/reserved (metadata|names) .*metadata\.(run_id|graph_id|assistant_id|user_id)$/ },
  { row: 'Members that only Weft sends', language: 'javascript', at: / body(\.\d+)?\.values$/, when: ({ ours, theirs }) => ours === null && theirs === ABSENT },
  { row: 'Configuration in `checkpoints` and `debug`', language: 'javascript', at: /(parent_config|\.checkpoint)$/, when: ({ ours }) => ours === null },
  { row: 'Threads of failed and stopped runs in JavaScript', language: 'javascript', at: /^multitask\/cancel.* GET \S* (body\.)?status$/ },
  { row: 'Members that Weft leaves out', language: 'javascript', at: /\.tool_call_chunks$/ },
  { row: 'Searches by values in JavaScript', language: 'javascript', at: /^threads\/search\/values/ },
  { row: '`stream_subgraphs` in JavaScript', language: 'javascript', at: /^(wrong\/run\/stream_subgraphs\/boolean|streams\/fail\/.*with subgraphs) \d/ },
  { row: 'An interrupt of a run without a thread', language: 'javascript', at: /^streams\/ask\/.* POST \/runs\/stream events/ },
  { row: '`custom` events of subgraphs without `stream_subgraphs`, in JavaScript', language: 'javascript', at: /^(streams\/outer\/.*custom.*|generated\/outer\/\d+) \d POST \S*\/stream events/ },
  { row: 'The interrupts of a task after its answer', language: 'javascript', at: /tasks\.\d+\.interrupts\.\d+$/, when: onlyTheirs },
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
