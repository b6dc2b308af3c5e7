/** Traces (W3C Trace Context): what travels with a request, and the spans that a graph host measures. */
import typia, { type tags } from 'typia'

/** The header `traceparent`. */
export const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** The execution of a node. Times in ms since the epoch, with fractions. */
export interface HostSpan {
  /** Unique in the run. */
  id: string & tags.MaxLength<64>
  /** The node that it is part of, of the graph around a subgraph; null: none. */
  parent: (string & tags.MaxLength<64>) | null
  name: string & tags.MaxLength<256>
  start: number
  end: number
  error: (string & tags.MaxLength<1024>) | null
}

/** Body of a `spans` frame, in the order of `start`. */
export interface HostSpans {
  spans: HostSpan[] & tags.MaxItems<1000>
}

export const validateHostSpans = typia.createValidate<HostSpans>()
