/** The nodes that a run executed: from its checkpoints, which are kept, or from its events. */
import type { ThreadState } from '@langchain/langgraph-sdk'
import { ask } from '../../api/client'
import { type Loaded, useLoad } from '../../api/load'
import type { RunEvent } from './events'
import { type Execution, hasEnded, type WholeRun } from './run-data'

export type StepState = Pick<
  ThreadState<unknown>,
  'checkpoint' | 'parent_checkpoint' | 'metadata' | 'created_at' | 'tasks'
>

export interface Step {
  key: string
  node: string
  /** From 1, in this run; null: not known. */
  step: number | null
  attempt: number | null
  /** In ms; null: not known. */
  began: number | null
  ended: number | null
  error: string | null
  state: 'done' | 'failed' | 'asks' | 'open'
}

export interface Steps {
  from: 'checkpoints' | 'events'
  list: Step[]
  /** Only the newest steps are listed. */
  isCut: boolean
}

export interface States {
  /** Newest first. */
  list: StepState[]
  isCut: boolean
}

const NONE: States = { list: [], isCut: false }
const MOST = 500
const EVERY_MS = 2_000
const SELECT = ['checkpoint', 'parent_checkpoint', 'metadata', 'created_at', 'tasks']

/** The checkpoints of a run, and before a continued one that which it continued. */
export function useStates(run: WholeRun): Loaded<States> {
  const { thread_id, run_id, kwargs } = run
  const every = hasEnded(run) || kwargs.temporary ? undefined : EVERY_MS
  return useLoad(
    `states ${run_id} ${run.status}`,
    async signal => {
      if (kwargs.temporary) return { list: [], isCut: false }
      const history = (body: object) =>
        ask<StepState[]>(`/threads/${thread_id}/history`, { method: 'POST', body: { select: SELECT, ...body }, signal })
      const list = await history({ limit: MOST, metadata: { run_id } })
      const oldest = list.at(-1)
      const isCut = list.length === MOST
      if (oldest?.parent_checkpoint == null || isCut || sourceOf(oldest) === 'input') return { list, isCut }
      const [parent] = await history({ limit: 1, before: oldest.checkpoint })
      return { list: parent === undefined ? list : [...list, parent], isCut }
    },
    { every },
  )
}

/** Checkpoints tell times; without any, the events at least name the nodes. */
export function stepsOf(
  run: WholeRun,
  states: States | null,
  events: readonly RunEvent[],
  execution: Execution | undefined,
): Steps {
  const stored = stepsOfStates(run, states ?? NONE, execution)
  return stored.length > 0
    ? { from: 'checkpoints', list: stored, isCut: states?.isCut ?? false }
    : { from: 'events', list: stepsOfEvents(events), isCut: false }
}

/** A checkpoint names the nodes that follow it; the next one is made when they have ended. */
function stepsOfStates(run: WholeRun, { list: states, isCut }: States, execution: Execution | undefined): Step[] {
  const end = hasEnded(run) ? Date.parse(execution?.ended_at ?? run.updated_at) : null
  const begin = execution?.started_at == null ? null : Date.parse(execution.started_at)
  const list = states.toReversed().filter(({ tasks }) => !tasks.some(({ name }) => name === '__start__'))
  return list.flatMap((state, i, all) => {
    const { run_id, run_attempt } = metadataOf(state)
    const next = all[i + 1]
    const made = state.created_at == null ? null : Date.parse(state.created_at)
    const ended = next?.created_at == null ? end : Date.parse(next.created_at)
    return state.tasks.map(({ id, name, error, interrupts, ...task }): Step => {
      const asks = interrupts.length > 0 && next === undefined
      const isDone = next !== undefined || (task as { result?: unknown }).result != null
      return {
        key: id,
        node: name,
        step: isCut ? null : i + 1,
        attempt: metadataOf(next ?? state).run_attempt ?? run_attempt ?? null,
        began: run_id === run.run_id ? made : begin,
        ended: isDone || error || asks ? ended : null,
        error: error ?? null,
        state: error ? 'failed' : asks ? 'asks' : isDone ? 'done' : 'open',
      }
    })
  })
}

const metadataOf = ({ metadata }: StepState) =>
  (metadata ?? {}) as { run_id?: string; run_attempt?: number; source?: string }
const sourceOf = (state: StepState) => metadataOf(state).source

/** By the modes that name nodes: `tasks` says begin and end, `updates` the end. */
function stepsOfEvents(events: readonly RunEvent[]): Step[] {
  const found = new Map<string, Step>()
  const withTasks = events.some(({ event }) => modeOf(event) === 'tasks')
  for (const [i, { event, data }] of events.entries()) {
    const mode = modeOf(event)
    const within = event
      .split('|')
      .slice(1)
      .map(part => `${part.split(':', 1)[0]} › `)
    if (typeof data !== 'object' || data === null) continue
    if (mode === 'tasks') {
      const { id, name, error = null, interrupts = [], ...task } = data as TaskEvent
      const isEnd = 'result' in task || error !== null
      const state = error !== null ? 'failed' : interrupts.length > 0 ? 'asks' : isEnd ? 'done' : 'open'
      found.set(id, { ...unknown, key: id, node: `${within.join('')}${name}`, error, state })
    } else if (mode === 'updates' && !withTasks)
      for (const node of Object.keys(data)) {
        const asks = node === '__interrupt__'
        if (!asks)
          found.set(`${i} ${node}`, {
            ...unknown,
            key: `${i} ${node}`,
            node: `${within.join('')}${node}`,
            error: null,
            state: 'done',
          })
      }
  }
  return [...found.values()]
}

const unknown = { step: null, attempt: null, began: null, ended: null }
const modeOf = (event: string): string => event.split('|', 1)[0]!

interface TaskEvent {
  id: string
  name: string
  error?: string | null
  interrupts?: unknown[]
}
