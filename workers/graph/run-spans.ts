/**
 * The recorded parts of a run on their way from its host: to the broker as they are, for readers of the API, and into the
 * trace of the run when the attempt ends. Hosts limit what they send; more than the limit is dropped here.
 */
import type { Link } from '../../bus/connect.js'
import { publishSpans } from '../../bus/streams.js'
import type { Tracer } from '../../bus/trace.js'
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

/** `keeps`: readers of the API get them, too. */
export function openRunSpans(link: Pick<Link, 'nc'>, tracer: Tracer | null, keeps: boolean): RunSpans {
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
    wants: run => keeps || traced.has(run.run_id),
    onFrame(run, { body }) {
      run.spans_bytes += body.length
      if (isMuted(run) || run.spans_bytes > MAX_SPANS_BYTES) return
      if (keeps) publishSpans(link, { thread: token('thread', run.lease.thread_id), run: run.run_id }, body)
      const parts = traced.get(run.run_id)
      if (parts !== undefined) for (const span of readJson(body, validateHostSpans).spans) parts.set(span.id, span)
    },
  }
}
