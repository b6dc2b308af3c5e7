/**
 * Finds where in the stored stream a replay may begin. A subject holds a block of 1,024 events, and a replay from its
 * start brings back what the reader has: 100 readers that lacked 20 of 200 events each received 20,200 messages. A direct
 * get returns one message, so a search costs a few of them.
 *
 * The stored order is not always that of the ids. A publisher that sends again begins at an earlier message and goes on
 * in order, so all events behind an event are stored behind each message that begins at or before it. A stale copy that
 * is stored after its repetition breaks that, so the reader checks that nothing is missing (bus/follow.ts).
 */
import type { RunId } from '../schemas/ids.js'
import { attemptOf, blockOf, chunk, EVENTS_PER_BLOCK, EVENTS_STREAM, firstIdOf } from '../schemas/subjects.js'
import type { Mux } from './mux.js'

export const DIRECT_GET = `$JS.API.DIRECT.GET.${EVENTS_STREAM}`
/** Messages that are cheaper to read than to search through. */
const NEAR = 4
/** How far before the event a guess aims: a message before the event may end the search, one behind it may not. */
const LEAD = NEAR / 2
/** Guesses by proportion, which fit a steady rate; each later one halves what is left. */
const GUESSES = 3
const MAX_GUESSES = 16

/** Sequence numbers of the stored stream. */
interface Start {
  /** A message that begins at or before the event, usually by a few messages. */
  seq: number
  /** The oldest message of the block of the event; 1 when no message of the block is stored. */
  oldest: number
}

/** Where a replay of the events behind `after` (≥ 0) begins. Rejects when the broker does not answer. */
export async function seek(mux: Mux, run: RunId, after: number): Promise<Start> {
  const block = blockOf(after)
  const subject = chunk(run, block)
  const isFar = after - Math.max(block * EVENTS_PER_BLOCK, firstIdOf(attemptOf(after))) > NEAR
  const [oldest, newest] = await Promise.all([
    get(mux, { seq: 1, next_by_subj: subject }),
    isFar ? get(mux, { last_by_subj: subject }) : null,
  ])
  if (oldest === null) return { seq: 1, oldest: 1 }
  const at = ({ seq }: Stored): Start => ({ seq, oldest: oldest.seq })
  // A newest message before the event is a copy: an event behind it may be stored anywhere.
  if (newest === null || oldest.first > after || newest.first + newest.count <= after) return at(oldest)
  if (newest.first <= after) return at(newest)
  let low = oldest
  let high = newest
  const isFarFrom = ({ seq, first, count }: Stored) => after - first > NEAR * count && high.seq - seq > NEAR
  for (let n = 0; n < MAX_GUESSES && isFarFrom(low); n++) {
    const share = n < GUESSES ? (after - LEAD - low.first) / (high.first - low.first) : 0.5
    const seq = low.seq + Math.max(1, Math.floor((high.seq - low.seq) * share))
    const found = await get(mux, { seq, next_by_subj: subject })
    if (found !== null && found.first <= after) low = found
    else high = { ...high, seq, first: found?.first ?? high.first }
  }
  return at(low)
}

interface Stored {
  seq: number
  /** The id of its first event. */
  first: number
  /** Events in it. */
  count: number
}

/**
 * Resolves to null when no such message is stored. It asks for no batch, because for a batch the broker counts all later
 * messages.
 */
async function get(
  mux: Mux,
  request: { seq: number; next_by_subj: string } | { last_by_subj: string },
): Promise<Stored | null> {
  const { headers } = await mux.ask(DIRECT_GET, Buffer.from(JSON.stringify(request)))
  if (headers === undefined || headers.code >= 400) return null
  const number = (name: string) => Number(headers.get(name))
  return { seq: number('Nats-Sequence'), first: number('first'), count: number('count') }
}
