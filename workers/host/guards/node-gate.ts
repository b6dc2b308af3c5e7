/**
 * In every durability, no node starts 11 s after the last confirmation of its run's lease: a resource worker takes a
 * run from its holder after 12 s without a heartbeat (resources/runs/holders.ts). A worker that is cut off or paused
 * therefore starts no node beside its successor, and what executes then is at most the node that was under way. The nodes
 * wait until a heartbeat is confirmed, or until the run is stopped. A stopped run starts no node any more, whatever is
 * confirmed.
 *
 * A confirmation counts from when its heartbeat was sent, not from when it arrived. Its clock goes on while a process is
 * paused; what was confirmed before the machine was suspended is void.
 *
 * The gate also knows whether a node still executes after the library has rejected.
 *
 * It wraps the objects that the library is about to invoke: every node of graphs and subgraphs, and every task of the
 * functional API. This needs `_runLoop` (0.2.40 has it, 0.2.20 does not: its nodes start unguarded). A callback handler
 * would cost each node a tree of handlers.
 */

import { uptime } from 'node:os'
import { TransientMap } from '../../../schemas/transient.js'
import { monotonicMs } from '../../pipe.js'
import type { NodeConfig, Spans } from '../spans.js'

export const CONFIRMED_MS = 11_000
/** Half of what lies between the last start of a node and a takeover. */
const LEAST_SUSPEND_MS = 500

export interface NodeGate {
  /** Resolves when no node of the run executes. */
  idle(): Promise<void>
  /** The run has ended: what it left behind has no lease. */
  close(): void
}

export interface NodeGates {
  /**
   * Opens the gate of a run; `confirmed_at` is the time of the last confirmation of its lease (monotonic). `spans` records
   * its nodes.
   */
  open(slot: number, confirmed_at: number, signal: AbortSignal, spans?: Spans | null): NodeGate
  /** Records that the lease of the run in this slot was confirmed by a heartbeat sent at this time (monotonic). */
  confirm(slot: number, at: number): void
  /**
   * Makes the nodes of this graph, and of other graphs of its class, pass the gate of the slot that executes them. False:
   * this library has no place for it.
   */
  guard(graph: object): boolean
}

/** The argument of `_runLoop`, and the objects that the loop invokes. */
interface Loop {
  tick(...args: unknown[]): Promise<boolean>
  tasks: { [id: string]: Task }
  acceptPush?(...args: unknown[]): Task | undefined | Promise<Task | undefined>
  scheduleErrorHandler?(...args: unknown[]): Task | undefined
}
interface Task {
  proc: Runnable
}
interface Runnable {
  invoke(...args: unknown[]): Promise<unknown>
  /** In a sequence: the node; the writers follow. The library makes the sequence of each task anew. */
  first?: Runnable
}
interface RunsLoop {
  _runLoop(params: { loop: Loop }): Promise<void>
}
interface Gate extends NodeGate {
  confirm(at: number): void
  spans: Spans | null
  /** Starts a node as soon as it may start; rejects when the run is stopped before. */
  pass<T>(node: () => Promise<T>): Promise<T>
}

export function openNodeGates(slotNow: () => number): NodeGates {
  const gates = new TransientMap<number, Gate>()
  const guarded = new WeakSet<object>()
  const behind = new WeakMap<Runnable, Runnable>()
  const passing = new WeakSet<Runnable>()
  const resumedAt = watchSuspends()

  function open(slot: number, claimedAt: number, signal: AbortSignal, spans: Spans | null = null): NodeGate {
    let confirmedAt = claimedAt
    let hasEnded = false
    let executing = 0
    let onIdle: (() => void)[] = []
    let waiting: (() => void)[] = []

    const isConfirmed = () => monotonicMs() - confirmedAt < CONFIRMED_MS && confirmedAt >= resumedAt()
    const mayStart = () => !signal.aborted && (hasEnded || isConfirmed())
    async function untilItMay(): Promise<void> {
      while (!mayStart()) {
        signal.throwIfAborted()
        await new Promise<void>(resolve => waiting.push(resolve))
      }
    }
    function look(): void {
      const now = waiting
      waiting = []
      for (const resolve of now) resolve()
    }
    signal.addEventListener('abort', look, { once: true })

    function onEnd(): void {
      if (--executing > 0) return
      for (const resolve of onIdle) resolve()
      onIdle = []
    }

    const gate: Gate = {
      spans,
      confirm(at) {
        confirmedAt = Math.max(confirmedAt, at)
        look()
      },
      pass(node) {
        executing++
        const started = mayStart() ? node() : untilItMay().then(node)
        started.then(onEnd, onEnd)
        return started
      },
      idle: () => new Promise(resolve => (executing === 0 ? resolve() : onIdle.push(resolve))),
      close() {
        hasEnded = true
        gates.delete(slot)
        look()
      },
    }
    gates.set(slot, gate)
    return gate
  }

  return {
    open,
    confirm: (slot, at) => gates.get(slot)?.confirm(at),
    guard(graph) {
      let proto: object | null = graph
      while (proto !== null && !Object.hasOwn(proto, '_runLoop')) proto = Object.getPrototypeOf(proto)
      if (proto === null) return false
      if (guarded.has(proto)) return true
      guarded.add(proto)
      const { _runLoop } = proto as RunsLoop
      ;(proto as RunsLoop)._runLoop = function (params) {
        if (gates.has(slotNow())) guardLoop(params.loop, gated)
        return _runLoop.call(this, params)
      }
      return true
    },
  }

  /** The node behind the gate of the run that executes it. Made once per node: an object with a new prototype is slow. */
  function gated(node: Runnable): Runnable {
    if (passing.has(node)) return node
    const known = behind.get(node)
    if (known !== undefined) return known
    const made: Runnable =
      node.first === undefined
        ? Object.create(node, { invoke: { value: (...args: unknown[]) => invoke(node, args) } })
        : // A sequence rejects at the abort although its first step, the node, still executes: the gate follows that.
          Object.create(node, { first: { value: gated(node.first) } })
    behind.set(node, made)
    passing.add(made)
    return made
  }

  function invoke(node: Runnable, args: unknown[]): Promise<unknown> {
    const gate = gates.get(slotNow())
    if (gate === undefined) return node.invoke(...args)
    const { spans } = gate
    if (spans === null) return gate.pass(() => node.invoke(...args))
    const [input, config, ...more] = args
    return gate.pass(() => spans.node(config as NodeConfig, changed => node.invoke(input, changed, ...more)))
  }
}

function guardLoop(loop: Loop, gated: (node: Runnable) => Runnable): void {
  const guardTask = (task: Task | undefined) => {
    if (task === undefined) return task
    const { proc } = task
    if (proc.first === undefined) task.proc = gated(proc)
    else proc.first = gated(proc.first)
    return task
  }
  const { tick, acceptPush, scheduleErrorHandler } = loop
  loop.tick = async (...args) => {
    const goesOn = await tick.apply(loop, args)
    if (goesOn) for (const task of Object.values(loop.tasks)) guardTask(task)
    return goesOn
  }
  if (acceptPush !== undefined) loop.acceptPush = async (...args) => guardTask(await acceptPush.apply(loop, args))
  if (scheduleErrorHandler !== undefined)
    loop.scheduleErrorHandler = (...args) => guardTask(scheduleErrorHandler.apply(loop, args))
}

const CLOCKS = { monotonic: monotonicMs, wall: () => Date.now(), boot: () => uptime() * 1000 }

/**
 * Notices that the machine was suspended: the monotonic clock stands still meanwhile. Of the clocks that go on, Node.js
 * reads only the wall clock without a system call for a file; the uptime says whether that was merely set. The returned
 * function returns when the end of the last suspend was noticed (monotonic); before one -Infinity.
 */
export function watchSuspends({ monotonic, wall, boot } = CLOCKS): () => number {
  let offset = wall() - monotonic()
  let asleep = boot() - monotonic()
  let resumed_at = Number.NEGATIVE_INFINITY
  return () => {
    const now = wall() - monotonic()
    if (Math.abs(now - offset) < LEAST_SUSPEND_MS) return resumed_at
    offset = now
    const slept = boot() - monotonic()
    if (slept - asleep >= LEAST_SUSPEND_MS) resumed_at = monotonic()
    asleep = slept
    return resumed_at
  }
}
