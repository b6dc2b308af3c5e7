/**
 * Whether the holders of running runs are alive. The row of a run has the attempt and a count that grows with each
 * heartbeat (every 5 s); a holder is dead when both stay the same for 12 s in which its heartbeats could be stored:
 * longer than its hosts start nodes without a confirmed heartbeat (host/node-gate.ts), so old and new attempt overlap by
 * the node that executes at most.
 * No clocks of two machines are compared. An outage of the store or the broker, and a pause of this process, interrupt the
 * wait: a heartbeat that could not arrive never counts against a run. They do not start it again, or a dead holder would
 * keep its runs for as long as outages follow each other; graph workers send a heartbeat as soon as they are connected
 * again, so a living one is heard between two outages. A holder whose process has been seen to end is dead at once.
 */
import type { Link } from '../../../bus/connect.js'
import type { Lifecycle } from '../../../bus/lifecycle.js'
import { TransientMap, TransientSet } from '../../../schemas/transient.js'
import type { Store } from '../../../store/port.js'
import type { Holders, Look } from '../context.js'

/** A live holder sends two heartbeats within this time. */
export const WATCH_MS = 12_000
/** After an outage graph workers connect again and send a heartbeat. */
const RECOVERY_MS = 500
/** A heartbeat or a ping that takes longer may hide that the holder is alive. */
const LATE_MS = 500
const TICK_MS = 500
/** A tick that is later than this means that the process was paused, or its event loop blocked. */
const PAUSE_MS = 1_500
/** The time since the last ping is lost for the wait when an outage begins. */
const PING_MS = 500
/** A ping that takes longer is an outage. */
const OUTAGE_MS = 2_000
/** An entry of a run is dropped when no claim looked at it for this time. */
const FORGET_MS = 60_000

/** Instead of a time: the holder has ended. */
const ENDED = Number.NEGATIVE_INFINITY

interface Watched extends Look {
  /** `calm` at the first look at this attempt and count. */
  calm: number
  /** Time of the last look. */
  last: number
}

/** `clock`: milliseconds of a clock that never jumps. Heartbeats before the call count as lost. */
export function openHolders(clock = () => performance.now()): Holders {
  /** Milliseconds in which heartbeats could be stored, up to `good_at`; it is in the future right after an outage. */
  let certain = 0
  let good_at = clock()
  const looks = new TransientMap<string, Watched>()
  /** Start times, oldest first. */
  const tracked = new TransientSet<{ started: number }>()

  /** The time since the last proof counts, too, until an outage takes it back. */
  const calm = (now: number) => certain + Math.max(0, now - good_at)

  const isLate = (now: number) => {
    const [oldest] = tracked
    return oldest !== undefined && now - oldest.started > LATE_MS
  }

  return {
    isDead({ run_id, attempt, heartbeats }) {
      const now = clock()
      // Nobody has looked for outages.
      if (looks.size === 0) good_at = Math.max(good_at, now)
      const known = looks.get(run_id)
      const isSame = known !== undefined && known.attempt === attempt && known.heartbeats === heartbeats
      const before = isSame ? known.calm : calm(now)
      looks.set(run_id, { attempt, heartbeats, calm: before, last: now })
      return before === ENDED || (!isLate(now) && calm(now) - before >= WATCH_MS)
    },
    heard(run_ids) {
      for (const run_id of run_ids) looks.delete(run_id)
    },
    end({ run_id, attempt, heartbeats }) {
      looks.set(run_id, { attempt, heartbeats, calm: ENDED, last: clock() })
    },
    reset() {
      good_at = clock() + RECOVERY_MS
    },
    async track(work) {
      const one = { started: clock() }
      tracked.add(one)
      try {
        const value = await work
        const now = clock()
        if (now - one.started <= LATE_MS && now > good_at) {
          certain += now - good_at
          good_at = now
        }
        return value
      } finally {
        tracked.delete(one)
      }
    },
    prune() {
      const now = clock()
      for (const [run_id, { last }] of looks) if (last < now - FORGET_MS) looks.delete(run_id)
      return looks.size > 0
    },
  }
}

/** The same store, whose heartbeats are tracked. */
export const trackHeartbeats = (store: Store, holders: Holders): Store => ({
  ...store,
  apply(steps) {
    const beat = steps.find(one => one.step === 'runs.beat')
    if (beat === undefined) return store.apply(steps)
    return holders.track(
      store.apply(steps).catch(error => {
        holders.heard(beat.runs.map(({ run_id }) => run_id))
        holders.reset()
        throw error
      }),
    )
  },
})

/** Interrupts the wait for holders after an outage of the broker or a pause of this process, until the lifecycle stops it. */
export function watchOutages(holders: Holders, link: Link, life: Lifecycle): void {
  let last = performance.now()
  const tick = setInterval(() => {
    const now = performance.now()
    if (now - last > PAUSE_MS) holders.reset()
    last = now
  }, TICK_MS)
  let pinging = false
  /** A paused broker keeps its connections open for up to 30 s; only a ping shows it. */
  const ping = async () => {
    if (pinging || !holders.prune()) return
    pinging = true
    const ms = await holders.track(link.nc.rtt()).catch(() => Number.POSITIVE_INFINITY)
    if (ms > OUTAGE_MS) holders.reset()
    pinging = false
  }
  const pings = setInterval(() => void ping(), PING_MS)
  const unsubscribe = link.onReconnect(() => holders.reset())
  life.push({
    name: 'watch of outages',
    quiet() {
      clearInterval(tick)
      clearInterval(pings)
      unsubscribe()
    },
  })
}
