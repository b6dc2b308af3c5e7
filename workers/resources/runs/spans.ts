/** The recorded parts of a run as clients read them: batches of all attempts, of which a later one has the newer state. */
import { readSpans } from '../../../bus/streams.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import {
  type HostSpan,
  type HostSpans,
  type RunSpan,
  type RunSpans,
  validateHostSpans,
} from '../../../schemas/trace.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Deps } from '../context.js'

export async function spansOf({ mux }: Pick<Deps, 'mux'>, run: RunSummary): Promise<RunSpans> {
  const { run_id, thread_id, status, attempt } = run
  const batches = await readSpans(mux, { thread: token('thread', thread_id), run: token('run', run_id) })
  const attempts = merge(batches.flatMap(bytes => read(bytes) ?? []))
  const isOver = (of: number) => of < attempt || isTerminal(status)
  return {
    run_id,
    thread_id,
    status: status === 'accepting' ? 'pending' : status,
    spans: attempts.flatMap(each =>
      [...each.spans.values()].map(span => viewOf(span, each.attempt, isOver(each.attempt))),
    ),
    left_out: attempts.reduce((sum, { left_out }) => sum + left_out, 0),
  }
}

/** A host with code of the application has written it: null when it is something else. */
function read(bytes: Uint8Array): HostSpans | null {
  try {
    const checked = validateHostSpans(JSON.parse(Buffer.from(bytes).toString()))
    return checked.success ? checked.data : null
  } catch {
    return null
  }
}

interface Attempt {
  attempt: number
  spans: Map<number, HostSpan>
  left_out: number
}

/** The attempts in their order, with the newest state of each span. */
function merge(batches: readonly HostSpans[]): Attempt[] {
  const attempts = new Map<number, Attempt>()
  for (const { attempt, spans, left_out } of batches) {
    let known = attempts.get(attempt)
    if (known === undefined) attempts.set(attempt, (known = { attempt, spans: new Map(), left_out: 0 }))
    for (const span of spans) known.spans.set(span.id, span)
    known.left_out = left_out
  }
  return [...attempts.values()]
    .sort((a, b) => a.attempt - b.attempt)
    .map(each => ({ ...each, spans: new Map([...each.spans].sort(([a], [b]) => a - b)) }))
}

/** `isOver`: its attempt has ended. A span that did not end with it was lost with the worker. */
function viewOf(span: HostSpan, attempt: number, isOver: boolean): RunSpan {
  const { id, parent, type, name, start, end, status, error, model, input_tokens, output_tokens, first_token } = span
  return {
    id: `${attempt}.${id}`,
    parent_id: parent === null ? null : `${attempt}.${parent}`,
    attempt,
    type,
    name,
    status: status === 'running' && isOver ? 'lost' : status,
    started_at: timeOf(start),
    duration_ms: end === null ? null : round(end - start),
    error: error ?? null,
    model: model ?? null,
    input_tokens: input_tokens ?? null,
    output_tokens: output_tokens ?? null,
    first_token_ms: first_token === undefined ? null : round(first_token - start),
  }
}

/** A time that is no date would throw. */
const LATEST = 8.64e15
const timeOf = (ms: number): string => new Date(Math.min(Math.max(ms, 0), LATEST)).toISOString()

const round = (ms: number): number => Math.round(ms * 10) / 10
