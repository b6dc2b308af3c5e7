/**
 * In every durability, no node starts 11 s after the last confirmation of its run's lease: a resource worker takes a
 * run from its holder after 12 s without a heartbeat (resources/runs/holders.ts). A worker that is cut off or paused
 * therefore executes at most one node of a run beside its successor. The nodes wait until a heartbeat is confirmed, or
 * until the run is stopped.
 *
 * The gate also knows whether a node still executes after the library has rejected.
 *
 * It wraps the objects that the library is about to invoke: every node of graphs and subgraphs, and every task of the
 * functional API. This needs `_runLoop` (0.2.40 has it, 0.2.20 does not: its nodes start unguarded). A callback handler
 * would cost each node a tree of handlers.
 */

import { TransientMap, TransientSet } from '../../schemas/transient.js'
import { monotonicMs } from '../pipe.js'

export const CONFIRMED_MS = 11_000

export interface NodeGate {
  /** Resolves when no node of the run executes. */
  idle(): Promise<void>
  close(): void
}

export interface NodeGates {
  /** Opens the gate of a run; `confirmed_at` is the time of the last confirmation of its lease (monotonic). */
  open(slot: number, confirmed_at: number, signal: AbortSignal): NodeGate
  /** Records that the leases of all runs were confirmed at this time (monotonic). */
  confirm(at: number): void
  /** Makes the nodes of this graph, and of other graphs of its class, pass the gate of the slot that executes them. */
  guard(graph: object): void
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
interface Gate {
  /** Null if a node may start now; else resolves when it may start. */
  wait(): Promise<void> | null
  /** Counts a node as executing until this promise settles. */
  follow<T>(node: Promise<T>): Promise<T>
}

export function openNodeGates(slotNow: () => number): NodeGates {
  const gates = new TransientMap<number, Gate>()
  const guarded = new WeakSet<object>()
  const behind = new WeakMap<Runnable, Runnable>()
  const passing = new WeakSet<Runnable>()
  const waiting = new TransientSet<() => void>()
  let confirmedAt = Number.NEGATIVE_INFINITY

  function open(slot: number, claimedAt: number, signal: AbortSignal): NodeGate {
    let executing = 0
    let onIdle: (() => void)[] = []

    const isConfirmed = () => monotonicMs() - Math.max(confirmedAt, claimedAt) < CONFIRMED_MS
    async function untilConfirmed(): Promise<void> {
      while (!isConfirmed()) {
        signal.throwIfAborted()
        await new Promise<void>(resolve => {
          const resume = () => {
            waiting.delete(resume)
            signal.removeEventListener('abort', resume)
            resolve()
          }
          waiting.add(resume)
          signal.addEventListener('abort', resume)
        })
      }
    }

    function onEnd(): void {
      if (--executing > 0) return
      for (const resolve of onIdle) resolve()
      onIdle = []
    }

    gates.set(slot, {
      wait: () => (isConfirmed() ? null : untilConfirmed()),
      follow(node) {
        executing++
        node.then(onEnd, onEnd)
        return node
      },
    })
    return {
      idle: () => new Promise(resolve => (executing === 0 ? resolve() : onIdle.push(resolve))),
      close: () => gates.delete(slot),
    }
  }

  return {
    open,
    confirm(at) {
      confirmedAt = Math.max(confirmedAt, at)
      for (const resume of [...waiting]) resume()
    },
    guard(graph) {
      let proto: object | null = graph
      while (proto !== null && !Object.hasOwn(proto, '_runLoop')) proto = Object.getPrototypeOf(proto)
      if (proto === null || guarded.has(proto)) return
      guarded.add(proto)
      const { _runLoop } = proto as RunsLoop
      ;(proto as RunsLoop)._runLoop = function (params) {
        if (gates.has(slotNow())) guardLoop(params.loop, gated)
        return _runLoop.call(this, params)
      }
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
    const waiting = gate.wait()
    return gate.follow(waiting === null ? node.invoke(...args) : waiting.then(() => node.invoke(...args)))
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
