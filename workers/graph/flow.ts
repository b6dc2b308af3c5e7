/**
 * Holds a run back that publishes faster than the broker takes its events: its host pauses the run, and the other runs of
 * the host go on. What waits here is bounded although the host may send more of the run: then its whole pipe is not read
 * for a while.
 */
import { TO_HOST } from '../pipe.js'
import type { GraphHost } from './host-process.js'
import type { ActiveRun, Hold } from './run-table.js'

/** A pipe is not read for this time at most: it also carries the questions and ends of other runs. */
const CLOSED_MS = 10_000
/**
 * Bytes that the paused runs of a host may send: about a megabyte of them was in the pipe, and a run that is resumed to end
 * has up to 16 MB in its lane.
 */
const MAX_LATE = 32 * 1024 * 1024

/** `bytes` of the run were passed to its publisher. */
export function limitFlow(run: ActiveRun, bytes: number): void {
  const { host, hold, publisher } = run
  if (host === null) return
  if (hold !== null) {
    hold.late += bytes
    host.lateBytes += bytes
    if (host.lateBytes > MAX_LATE) host.pause(hold)
  } else if (publisher.isCongested()) void holdBack(run, host)
}

/** The run goes on. Repeatable. */
export function resumeFlow(run: ActiveRun): void {
  const { host, slot, hold } = run
  run.hold = null
  if (host === null || hold === null) return
  host.lateBytes -= hold.late
  host.resume(hold)
  if (hold.isRunPaused) host.send({ kind: TO_HOST.resume, slot })
}

async function holdBack(run: ActiveRun, host: GraphHost): Promise<void> {
  const { slot, publisher } = run
  // A run that was ordered to stop is to send its end.
  const hold: Hold = { isRunPaused: run.stopReason === null, late: 0 }
  run.hold = hold
  if (hold.isRunPaused) host.send({ kind: TO_HOST.pause, slot })
  while (run.hold === hold) {
    await publisher.relieved(CLOSED_MS)
    host.resume(hold)
    if (run.hold === hold && !publisher.isCongested()) resumeFlow(run)
  }
}
