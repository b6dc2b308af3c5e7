/**
 * The recorded parts of runs, in a stream of the broker. A graph worker publishes batches and waits for no confirmation:
 * what the broker does not take is lost, and no run waits for it.
 */
import { fail } from '../schemas/errors.js'
import type { RunId, ThreadId } from '../schemas/ids.js'
import { SPANS_STREAM, spans, spansOfThread } from '../schemas/subjects.js'
import { MAX_SPANS_BYTES } from '../schemas/trace.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'

const DIRECT_GET = `$JS.API.DIRECT.GET.${SPANS_STREAM}`
const PAGE = 1_000
/** Bytes of one answer of the broker, and of all that is read of one run. */
const PAGE_BYTES = 4 * 1024 * 1024
const MOST_BYTES = 16 * MAX_SPANS_BYTES

const json = (value: unknown) => Buffer.from(JSON.stringify(value))

export interface RunPlace {
  thread: ThreadId
  run: RunId
}

export function publishSpans({ nc }: Pick<Link, 'nc'>, { thread, run }: RunPlace, batch: Uint8Array): void {
  nc.publish(spans(thread, run), batch)
}

/** The batches of a run in the order of their storing. Throws `unavailable` when the broker does not answer. */
export async function readSpans(mux: Mux, { thread, run }: RunPlace): Promise<Uint8Array[]> {
  const found: Uint8Array[] = []
  let bytes = 0
  for (let seq = 1; ; ) {
    let pending = 0
    const before = found.length
    const request = { seq, batch: PAGE, max_bytes: PAGE_BYTES, next_by_subj: spans(thread, run) }
    await mux.many(DIRECT_GET, json(request), ({ headers, data }) => {
      const code = headers?.code ?? 0
      // Nothing of the run, or the end of a page.
      if (code === 204 || code === 404) return true
      if (code >= 400) throw fail('unavailable', `The broker cannot read the spans of a run: ${headers?.description}`)
      seq = Number(headers?.get('Nats-Sequence')) + 1
      pending = Number(headers?.get('Nats-Num-Pending'))
      found.push(data)
      bytes += data.length
      return false
    })
    if (pending === 0 || found.length === before || bytes > MOST_BYTES) return found
  }
}

/** Removes those of a run, or of all runs of a thread. A broker that does not answer keeps them until they expire. */
export async function purgeSpans(link: Link, mux: Mux, thread: ThreadId, run?: RunId): Promise<void> {
  const filter = run === undefined ? spansOfThread(thread) : spans(thread, run)
  await mux
    .ask(`$JS.API.STREAM.PURGE.${SPANS_STREAM}`, json({ filter }))
    .catch(err => link.log.warn({ err, thread_id: thread, run_id: run }, 'the spans of runs were not removed'))
}
