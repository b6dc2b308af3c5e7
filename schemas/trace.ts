/** Traces (W3C Trace Context): what travels with a request, and the spans of a run, as hosts record and clients read them. */
import typia, { type tags } from 'typia'

/** The header `traceparent`. */
export const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** graph: the run itself. subgraph: a node that executes nodes of another graph. */
export type SpanType = 'graph' | 'subgraph' | 'node' | 'model' | 'tool'

/** cancelled: it was stopped, because the run was, or because another node failed. */
export type SpanStatus = 'running' | 'ok' | 'error' | 'interrupted' | 'cancelled'

type Tokens = number & tags.Type<'uint64'>

/** A part of a run. Times in ms since the epoch, with fractions. Absent: not known. */
export interface HostSpan {
  /** Number in the attempt, in the order of starts; 0: the graph. */
  id: number & tags.Type<'uint32'>
  /** The part around it; null for the graph. */
  parent: (number & tags.Type<'uint32'>) | null
  type: SpanType
  name: string & tags.MaxLength<256>
  start: number
  /** Null while it runs. */
  end: number | null
  status: SpanStatus
  /** The first line of its error. */
  error?: string & tags.MaxLength<512>
  /** The model that answered, or the one that was asked. */
  model?: string & tags.MaxLength<256>
  provider?: string & tags.MaxLength<256>
  input_tokens?: Tokens
  output_tokens?: Tokens
  /** When the first token came; for models that stream. */
  first_token?: number
}

/** Spans of one attempt; more are counted only. */
export const MAX_SPANS = 1_000
/** Bytes of all `spans` frames of an attempt; more are dropped. */
export const MAX_SPANS_BYTES = 1024 * 1024

/** Body of a `spans` frame: what has started or ended since the last one, in the order of starts. */
export interface HostSpans {
  attempt: number & tags.Type<'uint32'>
  spans: HostSpan[] & tags.MaxItems<1000>
  /** Parts of the attempt so far that were not recorded. */
  left_out: number & tags.Type<'uint32'>
}

export const validateHostSpans = typia.createValidate<HostSpans>()

/** A part of a run, for clients. */
export interface RunSpan {
  /** Unique in the run. */
  id: string
  /** The part around it; null for the graph. */
  parent_id: string | null
  attempt: number
  type: SpanType
  name: string
  /** `lost`: its attempt ended without it, because its worker died. */
  status: SpanStatus | 'lost'
  started_at: string
  /** Null while it runs, and when it was lost. */
  duration_ms: number | null
  /** The first line of its error. */
  error: string | null
  model: string | null
  input_tokens: number | null
  output_tokens: number | null
  /** The time to the first token of a model that streams. */
  first_token_ms: number | null
}

/** The answer of `GET …/runs/{run_id}/spans`. */
export interface RunSpans {
  run_id: string
  thread_id: string
  status: string
  /** All attempts, each in the order of starts. */
  spans: RunSpan[]
  /** Parts that were not recorded. */
  left_out: number
}
