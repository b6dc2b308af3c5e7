/**
 * The recorded parts of a run on their way from its host: to the broker as they are, for readers of the API, and into the
 * trace of the run when the attempt ends. Hosts limit what they send; more than the limit is dropped here.
 */
import type { Link } from '../../bus/connect.js'
import type { Tracer } from '../../bus/otlp/traces.js'
import { publishSpans } from '../../bus/streams.js'
import { type RunId, token } from '../../schemas/ids.js'
import { type HostSpan, MAX_SPANS_BYTES, validateHostSpans } from '../../schemas/trace.js'
import { type Frame, readJson } from '../pipe.js'
import { type ActiveRun, isMuted } from './run-table.js'

export interface RunSpans {
  /** Traces the run, if its request was traced. */
  begin(run: ActiveRun): void
  /** The host shall record the parts of the run. */
  wants(run: ActiveRun): boolean
  /** Throws a MalformedFrame when they are of a traced run and cannot be read. */
  onFrame(run: ActiveRun, frame: Frame): void
}

/**
 * Runs of a worker that are recorded in a second, and in a burst. With each run of one node recorded a worker executed 0.87 of
 * the runs: at such rates a part of them shows where the time goes.
 */
const RECORDED_PER_SECOND = 50

/** `keeps`: readers of the API get them, too. `now`: ms. */
export function openRunSpans(
  link: Pick<Link, 'nc'>,
  tracer: Tracer | null,
  keeps: boolean,
  now = () => performance.now(),
): RunSpans {
  const isWithinRate = openRate(RECORDED_PER_SECOND, now)
  /** The parts of traced runs. */
  const traced = new Map<RunId, Map<number, HostSpan>>()

  function end({ run_id, span }: ActiveRun): void {
    const parts = traced.get(run_id)
    traced.delete(run_id)
    if (span === null) return
    if (parts !== undefined) tracer?.record([...parts.values()], span)
    span.end()
  }

  return {
    /** The span of a run lasts until its end is stored, or until it was given back. */
    begin(run) {
      const { run_id, graph_id, thread_id, attempt, traceparent: parent } = run.lease
      if (tracer === null || parent === undefined) return
      const attributes = {
        'weft.run_id': run_id,
        'weft.thread_id': thread_id,
        'weft.attempt': attempt,
        'gen_ai.operation.name': 'invoke_workflow',
        'gen_ai.workflow.name': graph_id,
        'gen_ai.conversation.id': thread_id,
      }
      run.span = tracer.start(`run ${graph_id}`, { kind: 'consumer', parent, attributes })
      if (run.span.isRecorded) traced.set(run.run_id, new Map())
      void run.left.then(() => end(run))
    },
    // Another attempt is rare, and what somebody will look for.
    wants: ({ run_id, lease: { attempt } }) => traced.has(run_id) || (keeps && (attempt > 1 || isWithinRate())),
    onFrame(run, { body }) {
      run.spans_bytes += body.length
      if (isMuted(run) || run.spans_bytes > MAX_SPANS_BYTES) return
      if (keeps) publishSpans(link, { thread: token('thread', run.lease.thread_id), run: run.run_id }, body)
      const parts = traced.get(run.run_id)
      if (parts !== undefined) for (const span of readJson(body, validateHostSpans).spans) parts.set(span.id, span)
    },
  }
}

/** Whether one more is within the rate. What a second leaves is kept for a burst in the next one. */
function openRate(per_second: number, now: () => number): () => boolean {
  let left = per_second
  let at = now()
  return () => {
    const time = now()
    left = Math.min(per_second, left + ((time - at) / 1_000) * per_second)
    at = time
    if (left < 1) return false
    left--
    return true
  }
}
