/**
 * The recorded parts of runs, as hosts write and clients read them. Traces (W3C Trace Context): the headers that travel with a
 * request, and the spans of a run. Log lines of graph workers and their hosts, which edges ask for.
 */
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

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Lines in one answer. */
export const MAX_LOG_LINES = 1_000

/** Body of `event.logs.asked`. All conditions must hold. */
export interface LogQuery {
  run_id?: string & tags.MaxLength<64>
  /** A part of the line, in any case. */
  text?: string & tags.MaxLength<1000>
  /** This level or a higher one. */
  level?: LogLevel
  /** The newest so many. */
  limit: number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>
}

/** A line as its graph worker tells it. */
export interface WorkerLine {
  /** Number in the worker, in the order in which lines came. */
  id: number & tags.Type<'uint64'>
  /** Milliseconds since the epoch. */
  time: number
  level: LogLevel
  /** log: of the graph worker itself. */
  stream: 'stdout' | 'stderr' | 'log'
  /** The process that wrote it: `graph host 4711`. */
  process: string & tags.MaxLength<64>
  text: string & tags.MaxLength<8192>
  run_id: (string & tags.MaxLength<64>) | null
  thread_id: (string & tags.MaxLength<64>) | null
  graph_id: (string & tags.MaxLength<512>) | null
}

/** The answer of a graph worker. */
export interface LogReport {
  app: string & tags.MaxLength<128>
  /** As in the figures of the worker. */
  worker: string & tags.MinLength<1> & tags.MaxLength<128>
  /** The oldest first. */
  lines: WorkerLine[] & tags.MaxItems<1000>
}

export const validateLogQuery = typia.createValidate<LogQuery>()
export const validateLogReport = typia.createValidate<LogReport>()

/** A line as clients read it. */
export interface LogLine extends Omit<WorkerLine, 'id' | 'time'> {
  /** Unique among the lines of all workers. */
  id: string
  /** ISO 8601. */
  time: string
  worker: string
  pool: string
}

/** The answer of `GET /workers/logs`. */
export interface LogLines {
  /** The oldest first. */
  lines: LogLine[]
  /** The workers that have answered. */
  workers: { worker: string; pool: string }[]
}
