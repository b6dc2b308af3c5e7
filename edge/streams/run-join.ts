/**
 * Joins a run that exists (docs/spec/streams.md#join). A request for events that are no longer stored is answered 409
 * before the stream begins, so the 200 waits for the first replayed event, or for the answer that no event is stored.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { follows } from '../../bus/follow.js'
import { token } from '../../schemas/ids.js'
import { isTerminal, type RunView } from '../../schemas/runs.js'
import { attemptOf } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'
import type { Beginning } from './cursor.js'
import type { RunStream } from './run-stream.js'

/** Longest wait for the broker's confirmation of the subscription, before the 200. */
const SUBSCRIBED_MS = 500
/** Longest wait for the first event of a run that was claimed. */
const STARTING_MS = 2_000
const PAUSE_MS = 200
/** The last events of a run may reach the stored stream this long after its end: a new leader of the broker comes first. */
const STORING_MS = 10_000

/** The event before the cursor tells an id of this run from a foreign one. */
const fromOf = (cursor: number): number => Math.max(cursor - 1, -1)

/** Begins at the cursor; without one the run's default is to replay all that is stored, or to begin with live events. */
export async function openJoined(edge: Edge, stream: RunStream, view: RunView, beginning: Beginning): Promise<void> {
  const { reader } = stream
  const { cursor, checkpoint } = beginning
  reader.accept(view)
  const ended = isTerminal(view.status)
  if (typeof cursor === 'number' && ended && view.last_event_id !== null && cursor >= view.last_event_id)
    return reader.open({ after: cursor })
  if (cursor === null && view.from === 'live') {
    // A client that sees the 200 may rely on every event from then on.
    if (!ended)
      await Promise.race([edge.link.nc.flush().catch(() => {}), sleep(SUBSCRIBED_MS, undefined, { ref: false })])
    if (ended && reader.begin()) return stream.ended()
    reader.open({ after: -1, anchored: false })
    return edge.watch.ask(reader)
  }
  if (!ended) edge.watch.ask(reader)
  if (typeof cursor === 'number') await fromCursor(stream, cursor)
  else if (!ended && checkpoint !== null && (await fromCheckpoint(stream, checkpoint))) return
  else await fromStart(stream, { lenient: cursor === null })
}

/** Strictly after `cursor`. */
async function fromCursor(stream: RunStream, cursor: number): Promise<void> {
  const { reader } = stream
  const { resumable, status, attempt, last_event_id } = reader.view!
  const start = { after: cursor, exact: resumable }
  let probe = await reader.probe(fromOf(cursor), start)
  // The event itself may have expired while all events behind it are stored.
  if (!probe.found && probe.outcome === 'gone') probe = await reader.probe(cursor, start)
  if (reader.closed) return
  const { outcome, found, hole, began } = probe
  const nothing = !found && (outcome === 'complete' || outcome === 'empty')
  // An id behind everything that is stored is foreign; but where nothing is stored any more, it may be of a lost event.
  const ended = isTerminal(status)
  const published = ended || (attemptOf(cursor) <= attempt && !(status === 'pending' && last_event_id === null))
  const lost = nothing && resumable && published && (ended || !(await reader.hasStored()))
  if (reader.closed) return
  if (lost) return refuse(stream, 'conflict')
  if (!began && outcome === 'silent') return refuse(stream, 'unavailable')
  if (!began && (hole || (!found && outcome === 'gone'))) return refuse(stream, 'conflict')
  if (!nothing) return reader.resume(outcome)
  // It sorts after the end of what there is, so it counts as absent.
  if (reader.view!.from === 'start') return fromStart(stream, { lenient: true })
  reader.sent = -1
  reader.resume(outcome, { anchored: false })
}

/** Strictly after the last event before the checkpoint. False: that is not known, and nothing was sent. */
async function fromCheckpoint({ edge, reader }: RunStream, checkpoint: string): Promise<boolean> {
  const { pool, resumable } = reader.view!
  const after = await edge.follower.eventBefore(reader.run, token<'pool'>('pool', pool), checkpoint)
  if (after === null) return reader.closed
  const { outcome, found, hole, began } = await reader.probe(fromOf(after), { after, exact: resumable })
  if (!reader.closed && (began || (found && !hole))) reader.resume(outcome)
  return reader.closed || began || (found && !hole)
}

/** `lenient`: what is stored, wherever it begins; else everything, or 409. */
async function fromStart(stream: RunStream, { lenient }: { lenient: boolean }): Promise<void> {
  const { reader } = stream
  const { resumable, status, last_event_id, resumable_until_id, updated_at } = reader.view!
  const start = { after: -1, anchored: !lenient, lenient, exact: resumable }
  let probe = await reader.probe(-1, start)
  // A run that has just started publishes its first event in a moment. If nobody has events that are not stored, its
  // supervisor may not have received it yet.
  const isEarly = () => probe.outcome === 'empty' || (probe.outcome === 'gone' && !resumable && !probe.found)
  for (let ms = 0; !lenient && isEarly() && status === 'running' && ms < STARTING_MS; ms += PAUSE_MS) {
    await sleep(PAUSE_MS, undefined, { ref: false })
    probe = await reader.probe(-1, start)
  }
  // An error that no host was alive to write is not stored: it may be the only event.
  const unwritten = (status === 'error' || status === 'timeout') && follows(-1, last_event_id ?? -1)
  const published = last_event_id !== null && last_event_id >= 0 && !unwritten
  const isStoring = () => resumable && published && probe.outcome === 'empty' && Date.now() < updated_at + STORING_MS
  while (!lenient && isStoring() && !reader.closed) {
    await sleep(PAUSE_MS, undefined, { ref: false })
    probe = await reader.probe(-1, start)
  }
  // The view may be older than the next attempt.
  if (!lenient && resumable && probe.hole && (await isWhole(stream)))
    probe = await reader.probe(-1, { ...start, exact: false })
  const { outcome, hole, began } = probe
  if (reader.closed) return
  if (began) return reader.resume(outcome)
  if (outcome === 'silent') return refuse(stream, 'unavailable')
  const pending = status === 'pending'
  if (outcome === 'gone' && resumable_until_id !== null) return refuse(stream, 'conflict')
  if (!lenient && (hole || (outcome === 'gone' && !pending))) return refuse(stream, 'conflict')
  if (!lenient && outcome === 'empty' && published) return refuse(stream, 'conflict')
  // Nothing was published yet: the first event to come is the first of all.
  const isNew = outcome === 'complete' || outcome === 'empty' || pending
  reader.resume(outcome, isNew ? { anchored: true, lenient: false } : {})
}

/**
 * Whether no stored event of the run can be missing: events that are older than the run are stored. Then an attempt
 * without events ended before its first one, and did not expire.
 */
async function isWhole({ reader, edge }: RunStream): Promise<boolean> {
  const { created_at, resumable_until_id } = reader.view!
  if (resumable_until_id !== null) return false
  const since = await edge.follower.storedSince().catch(() => null)
  return since !== null && since < created_at
}

function refuse(stream: RunStream, code: 'conflict' | 'unavailable'): void {
  stream.drop()
  if (code === 'conflict') stream.exchange.refuse(code, 'The events after this id are no longer kept')
  else stream.exchange.refuse(code)
}
