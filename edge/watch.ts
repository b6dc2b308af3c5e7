/**
 * Finds ended runs whose end message was lost: the edge looks up the runs of all streams that were idle for 5 s in one
 * call, and all runs after a broker reconnect. So every stream ends.
 */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import type { Peek } from '../schemas/calls.js'
import { rpc } from '../schemas/subjects.js'
import { TransientSet } from '../schemas/transient.js'

/** A stream or a wait of a run. */
export interface WatchEntry {
  readonly run: string
  /** When the last message of the run came, as `performance.now()`. */
  heardAt: number
  /** The run's row, or null when it was removed. */
  onPeek(peek: Peek | null): void
  /** The broker was away: events may have been missed. */
  onReconnect(): void
}

export interface Watch {
  add(one: WatchEntry): void
  remove(one: WatchEntry): void
  /** Looks this one up now. */
  ask(one: WatchEntry): void
  /** Like `ask`; resolves when that was answered or has failed. */
  look(one: WatchEntry): Promise<void>
  close(): void
}

const IDLE_MS = 5_000
const PER_CALL = 1_000
const SILENCE_MS = 2_000
const SPREAD_MS = 1_000
const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function openWatch(link: Link, caller: Caller): Watch {
  const all = new TransientSet<WatchEntry>()
  let due = new Set<WatchEntry>()

  function ask(one: WatchEntry): void {
    if (due.size === 0) setImmediate(flush)
    due.add(one)
  }

  function flush(): void {
    const asked = [...due]
    due = new Set()
    for (let i = 0; i < asked.length; i += PER_CALL) void peek(asked.slice(i, i + PER_CALL))
  }

  async function peek(asked: WatchEntry[]): Promise<void> {
    const run_ids = [...new Set(asked.map(one => one.run))]
    try {
      const body = encoder.encode(JSON.stringify({ run_ids }))
      const answer = await caller.ask(rpc('runs', 'peek'), { request_id: 'watch' }, body, {
        timeout: IDLE_MS,
        silence: SILENCE_MS,
        repeat: true,
      })
      const { runs } = JSON.parse(decoder.decode(answer.body)) as { runs: Peek[] }
      const found = new Map(runs.map(run => [run.run_id, run]))
      for (const one of asked) if (all.has(one)) one.onPeek(found.get(one.run) ?? null)
    } catch (error) {
      // The next round asks again.
      link.log.debug({ err: error, runs: run_ids.length }, 'runs could not be looked up')
    }
  }

  const timer = setInterval(() => {
    const before = performance.now() - IDLE_MS
    for (const one of all) if (one.heardAt <= before) ask(one)
  }, IDLE_MS)
  timer.unref()

  const forget = link.onReconnect(() => {
    for (const one of all) {
      ask(one)
      // Spread, so that the broker is not asked for every stream's replay at once.
      setTimeout(() => all.has(one) && one.onReconnect(), Math.random() * SPREAD_MS).unref()
    }
  })

  return {
    add: one => void all.add(one),
    remove: one => {
      all.delete(one)
      due.delete(one)
    },
    ask,
    look: one => peek([one]),
    close() {
      clearInterval(timer)
      forget()
      all.clear()
    },
  }
}
