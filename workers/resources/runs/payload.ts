/** The stored execution request: the body of a create merged with its assistant (docs/spec/runs.md#payload). */
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { isObject, type JsonObject, merge, type Config as RunConfig } from '../../../schemas/json.js'
import type { Durability, RunCreate, RunKwargs, StreamMode } from '../../../schemas/runs.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import type { RunRow } from '../../../store/rows/runs.js'

interface PayloadOptions {
  /** The system keys of configurable. */
  ids: JsonObject
  metadata: JsonObject
  temporary: boolean
  /** Request headers: they fill members of configurable that the body does not give. */
  headers?: JsonObject
}

/** A larger assistant is not copied into its runs: they refer to its version. */
const MAX_COPIED = 8 * 1024
const REFERS = '{"assistant":{'

/** The version of an assistant that a run refers to. An assistant with the same id may be made anew. */
interface AssistantReference {
  version: number
  created_at: number
}

type Templates = Pick<AssistantRow, 'config' | 'context' | 'version' | 'created_at'>

/**
 * The JSON text of the RunKwargs. With a large assistant: `assistant`, and config and context as the request gives them,
 * so that a small request stores little; `readReference` merges them when the run is claimed.
 */
export function kwargsOf(body: RunCreate, assistant: Templates, options: PayloadOptions): string {
  const { temporary } = options
  const overlay = overlayOf(body, options)
  const kwargs: Omit<RunKwargs, 'config' | 'context'> = {
    input: body.input ?? null,
    // SDKs strip absent members, so an empty command can arrive: it means none.
    command: body.command && Object.keys(body.command).length > 0 ? body.command : null,
    ...(body.strict_resume ? { strict_resume: true } : {}),
    stream_mode: modesOf(body),
    stream_subgraphs: body.stream_subgraphs ?? false,
    resumable: body.stream_resumable ?? false,
    durability: durabilityOf(body),
    temporary,
    feedback_keys: body.feedback_keys ?? null,
    interrupt_before: body.interrupt_before ?? null,
    interrupt_after: body.interrupt_after ?? null,
    webhook: body.webhook ?? null,
  }
  const { version, created_at, config, context } = assistant
  if (config.length + context.length > MAX_COPIED) {
    const reference: AssistantReference = { version, created_at }
    return jsonText({ assistant: reference, ...kwargs, config: overlay, context: body.context ?? null })
  }
  return jsonText({
    ...kwargs,
    config: configOf(parseJson(config), overlay, options.metadata),
    context: contextOf(parseJson(context), body.context),
  } satisfies RunKwargs)
}

/** Kwargs that refer to a version of the assistant of their run. */
interface Referring extends AssistantReference {
  /** The whole RunKwargs as JSON text. */
  whole(assistant: Pick<AssistantRow, 'config' | 'context'>): string
}

/** Null for kwargs that are whole. */
export function readReference(run: Pick<RunRow, 'kwargs' | 'metadata'>): Referring | null {
  if (!run.kwargs.startsWith(REFERS)) return null
  const { assistant, config, context, ...kwargs } = parseJson(run.kwargs) as RunKwargs & {
    assistant: AssistantReference
  }
  return {
    ...assistant,
    whole: template =>
      jsonText({
        ...kwargs,
        config: configOf(parseJson(template.config), config, parseJson(run.metadata)),
        context: contextOf(parseJson(template.context), context),
      } satisfies RunKwargs),
  }
}

/** An empty list means the default: the React hook sends one when nothing is tracked. */
function modesOf({ stream_mode }: RunCreate): StreamMode[] {
  const modes =
    stream_mode === undefined || stream_mode === null ? [] : Array.isArray(stream_mode) ? stream_mode : [stream_mode]
  return modes.length === 0 ? ['values'] : [...new Set(modes)]
}

/** The config of the request. Its configurable ends with the system keys. */
function overlayOf(body: RunCreate, { ids, headers = {} }: PayloadOptions): JsonObject {
  const given = [headers, body.config?.configurable, selectionOf(body), tracerOf(body), ids]
  return merge(body.config, { configurable: withoutReserved(merge(...given)) })
}

/** Later wins; clients cannot set auth keys; system keys win over keys of the client. */
function configOf(base: RunConfig, overlay: JsonObject, metadata: JsonObject): JsonObject {
  const config = merge(base, overlay)
  for (const [key, value] of Object.entries(config)) if (value === null) delete config[key]
  return merge(config, {
    configurable: withoutReserved(merge(base.configurable, overlay.configurable as JsonObject)),
    metadata: merge(withoutAuth(merge(isObject(config.metadata) ? config.metadata : null)), metadata),
  })
}

function withoutReserved(configurable: JsonObject): JsonObject {
  for (const key of Object.keys(configurable)) if (key.startsWith('__pregel_')) delete configurable[key]
  return withoutAuth(configurable)
}

export const AUTH_PREFIX = 'langgraph_auth_'

/** Removes auth keys in place: a client cannot choose its identity. */
export function withoutAuth(given: JsonObject): JsonObject {
  for (const key of Object.keys(given)) if (key.startsWith(AUTH_PREFIX)) delete given[key]
  return given
}

/** The user of the run, when its config has one. */
export function userOf({ config }: RunCreate, base: RunConfig): string | undefined {
  const { user_id } = merge(base.configurable, config?.configurable)
  return typeof user_id === 'string' ? user_id : undefined
}

/** The checkpoint to start from, for this run only; `checkpoint` overrides the older `checkpoint_id`. */
function selectionOf({ checkpoint, checkpoint_id }: RunCreate): JsonObject {
  const out: JsonObject = {}
  if (checkpoint_id) out.checkpoint_id = checkpoint_id
  if (checkpoint?.checkpoint_id) out.checkpoint_id = checkpoint.checkpoint_id
  if (checkpoint?.checkpoint_ns) out.checkpoint_ns = checkpoint.checkpoint_ns
  if (checkpoint?.checkpoint_map) out.checkpoint_map = checkpoint.checkpoint_map
  return out
}

function tracerOf({ langsmith_tracer: tracer }: RunCreate): JsonObject {
  const out: JsonObject = {}
  if (tracer?.project_name) out.langsmith_project = tracer.project_name
  if (tracer?.example_id) out.langsmith_example_id = tracer.example_id
  return out
}

const contextOf = (base: unknown, given: unknown): unknown =>
  given === undefined || given === null ? base : isObject(base) && isObject(given) ? merge(base, given) : given

/** `durability` wins. Without it, checkpoint_during false means exit. */
const durabilityOf = ({ durability, checkpoint_during }: RunCreate): Durability =>
  durability ?? (checkpoint_during === false ? 'exit' : 'async')
