/** The questions of a host, answered by the resource workers: checkpoints of its runs, and items of the store. */
import { validateCheckpointQuery } from '../../schemas/checkpoints.js'
import { ANSWER, ASK, type Frame, MalformedFrame, readJson, TO_HOST } from '../pipe.js'
import { type AskGate, type AskLimits, openAskGate } from './ask-gate.js'
import type { GraphHost } from './host-process.js'
import { isFenced, isUnreachable, type LeaseClient } from './lease-client.js'
import { type ActiveRun, isMuted, type RunTable } from './run-table.js'
import type { Stopping } from './stopping.js'

/** The questions that a slot without a run may ask. */
const READS = new Set<number>([ASK.get, ASK.list])

export interface HostAsks {
  /**
   * Answers the question of a slot; `run` is undefined for a slot without a run, which may only read while it is lent to
   * a call. False: the question was dropped. Throws a MalformedFrame for an unknown one.
   */
  onAsk(host: GraphHost, frame: Frame, run: ActiveRun | undefined): boolean
  onHostEnd(host: GraphHost): void
}

export interface HostAsksOptions {
  table: RunTable
  leases: LeaseClient
  stopping: Stopping
  limits: AskLimits
}

export function openHostAsks({ table, leases, stopping, limits }: HostAsksOptions): HostAsks {
  const gates = new Map<GraphHost, AskGate>()

  function gateOf(host: GraphHost): AskGate {
    const gate = gates.get(host) ?? openAskGate(host, limits)
    gates.set(host, gate)
    return gate
  }

  /**
   * Reads checkpoints of the slot's own thread, not of one that the host names, or saves them under its lease. `run` is
   * null for a slot that is lent to a call: it may read and not save.
   */
  function ask(host: GraphHost, frame: Frame, run: ActiveRun | null): void {
    const { slot, flags, id, body } = frame
    if (run !== null && isMuted(run)) return host.send({ kind: TO_HOST.answer, slot, id, flags: ANSWER.refused })
    const gate = gateOf(host)
    const answer = (ask: () => Promise<Uint8Array>) => () => answerAsk(host, frame, run, ask)
    if (run !== null && flags === ASK.save)
      return void gate.save(
        body.length,
        answer(() => saveOf(run, body)),
      )
    if (run !== null && flags === ASK.items)
      return void gate.read(
        slot,
        body.length,
        answer(() => leases.items(run.lease, body)),
      )
    if (!READS.has(flags)) throw new MalformedFrame('its question is not known')
    const query = { ...readJson(body, validateCheckpointQuery), thread_id: table.threadOf(host, slot) }
    const bytes = Buffer.from(JSON.stringify(query))
    const verb = flags === ASK.get ? 'get' : 'list'
    void gate.read(
      slot,
      body.length,
      answer(() => leases.checkpoints(verb, run?.lease ?? null, bytes)),
    )
  }

  async function answerAsk(
    host: GraphHost,
    { slot, id }: Frame,
    run: ActiveRun | null,
    ask: () => Promise<Uint8Array>,
  ): Promise<void> {
    const reply = (flags: number, body?: Uint8Array) =>
      host.send({ kind: TO_HOST.answer, slot, id, flags, ...(body ? { body } : {}) })
    try {
      // The run may have been lost while its question waited.
      if (run !== null && isMuted(run)) return reply(ANSWER.refused)
      reply(ANSWER.ok, await ask())
    } catch (error) {
      const reason = isFenced(error) ? 'lost' : isUnreachable(error) ? 'store' : null
      if (run === null || reason === null)
        return reply(ANSWER.failed, Buffer.from(JSON.stringify({ detail: (error as Error).message })))
      stopping.stop(run, reason)
      reply(ANSWER.refused)
    }
  }

  function saveOf(run: ActiveRun, body: Uint8Array): Promise<Uint8Array> {
    const save = leases.checkpoints('save', run.lease, body)
    run.saves.add(save)
    const done = () => void run.saves.delete(save)
    save.then(done, done)
    return save
  }

  return {
    onAsk(host, frame, run) {
      if (run === undefined && !(READS.has(frame.flags) && table.isLent(host, frame.slot))) return false
      ask(host, frame, run ?? null)
      return true
    },
    onHostEnd(host) {
      gates.get(host)?.close()
      gates.delete(host)
    },
  }
}
