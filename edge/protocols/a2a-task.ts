/**
 * Runs as tasks. A task is a run and the runs that resume it: its id is that of the first, which the others have in their
 * metadata; its state and its output are those of the latest. Its context is the thread.
 */

import { isUuid } from '../../schemas/ids.js'
import { isObject, type Json, type JsonObject } from '../../schemas/json.js'
import { A2aError, type HistoryScope } from '../../schemas/protocols/a2a.js'
import { isTerminal } from '../../schemas/runs.js'
import type { ThreadState } from '../../schemas/threads.js'
import { interfacesOfTools, shownIn } from './a2a-a2ui.js'
import { type Agent, isCanceled, joinRun, listRuns, type Run, readRun, readState, readStateOf } from './a2a-agent.js'
import { partsOf } from './a2a-content.js'
import type { Artifact, Message, Part, Status, Task } from './a2a-wire.js'

/** Metadata of a run that resumes a task. */
export const RESUMES = 'a2a_task_id'

/** Metadata of a part that asks for input: the id of the interrupt, by which it is answered when there are several. */
const INTERRUPT = 'interrupt_id'

/** Ids of the interrupts at which a task waits; empty when it stopped before a node. */
export const interruptsOf = ({ message }: Status): string[] =>
  (message?.parts ?? []).flatMap(({ metadata }) => (metadata === undefined ? [] : [`${metadata[INTERRUPT]}`]))

export interface TaskRuns {
  id: string
  latest: Run
  /** No run of the thread is newer: the state of the thread is that of the task. */
  isNewest: boolean
  /** Ids of the messages that began the task. */
  began: readonly string[]
}

export const taskIdOf = ({ run_id, metadata }: Run): string => {
  const resumed = metadata[RESUMES]
  return typeof resumed === 'string' && isUuid(resumed) ? resumed : run_id
}

/** By the id of any of its runs, also as `thread:run`. Throws no_task, also for a task of another assistant. */
export async function findTask(agent: Agent, id: string): Promise<TaskRuns> {
  const [run_id, thread_id] = id.split(':', 2).reverse() as [string, string?]
  const none = new A2aError('no_task', `Task ${id.slice(0, 200)} not found`)
  if (!isUuid(run_id)) throw none
  const run = await readRun(agent, run_id)
  const isOther = thread_id !== undefined && thread_id !== run.thread_id
  if (isOther || run.assistant_id !== agent.assistant.assistant_id) throw none
  const task = taskIdOf(run)
  const first = task === run.run_id ? run : await readRun(agent, task)
  if (first.thread_id !== run.thread_id) throw none
  const [newest] = await listRuns(agent, run.thread_id, { limit: 1 })
  const began = messageIdsOf(first.kwargs.input)
  if (newest !== undefined && taskIdOf(newest) === task) return { id: task, latest: newest, isNewest: true, began }
  const [resumed] = await listRuns(agent, run.thread_id, { limit: 1, metadata: { [RESUMES]: task } })
  return { id: task, latest: resumed ?? first, isNewest: false, began }
}

export interface Shown {
  /** Messages; 0: none. */
  history: number
  scope: HistoryScope
  artifacts: boolean
}

/** Reads the status of the task, and what is to be shown of it. */
export async function readTask(agent: Agent, task: TaskRuns, shown: Shown): Promise<Task> {
  const { id, latest, isNewest } = task
  const contextId = latest.thread_id
  const reads = latest.status === 'success' || shown.history > 0
  const state = !reads ? null : isNewest ? await readState(agent, contextId) : await readStateOf(agent, latest)
  const of = { id, contextId }
  const status = await readStatus(agent, task, state)
  return {
    ...of,
    status,
    ...(shown.artifacts && status.state === 'completed'
      ? { artifacts: [artifactOf(agent, latest, await readOutput(agent, latest, state))] }
      : {}),
    ...(shown.history > 0 ? { history: historyOf(state, task, shown) } : {}),
  }
}

async function readStatus(
  agent: Agent,
  { id, latest, isNewest }: TaskRuns,
  state: ThreadState | null,
): Promise<Status> {
  const { updated_at: timestamp, run_id } = latest
  const tell = (parts: Part[]): { message?: Message } =>
    parts.length === 0
      ? {}
      : { message: { role: 'agent', messageId: run_id, contextId: latest.thread_id, taskId: id, parts } }
  switch (latest.status) {
    case 'pending':
      return { state: 'submitted', timestamp }
    case 'running':
      return { state: 'working', timestamp }
    case 'interrupted':
      return { state: 'canceled', timestamp }
    case 'error':
    case 'timeout':
      return { state: 'failed', timestamp, ...tell(failureOf(await joinRun(latest, agent))) }
    case 'success': {
      if (state === null || state.next.length === 0) return { state: 'completed', timestamp }
      // The thread went on without the input that the task waited for.
      if (!isNewest || (await isCanceled(latest, agent))) return { state: 'canceled', timestamp }
      return { state: 'input-required', timestamp, ...tell(questionsOf(state)) }
    }
  }
}

function failureOf(result: Json): Part[] {
  const failure = isObject(result) ? result.__error__ : null
  return isObject(failure) ? [{ text: `${failure.error}: ${failure.message}` }] : []
}

/** The questions of the graph at its interrupts, or the nodes before which it stopped. */
function questionsOf({ tasks, next }: ThreadState): Part[] {
  // A task that was answered keeps its interrupt until the others of its step are answered, too.
  const interrupts = tasks.flatMap(({ result, interrupts }) => (result == null ? interrupts : []))
  if (interrupts.length === 0) return [{ text: `The run stopped before ${next.join()}` }]
  return interrupts.map(({ id, value }) => ({ ...partOf(value), metadata: { [INTERRUPT]: id } }))
}

const partOf = (value: Json): Part => (typeof value === 'string' ? { text: value } : { data: value })

/** The values of the state that the graph returns: those that a client that waits gets. */
async function readOutput(agent: Agent, latest: Run, state: ThreadState | null): Promise<Json> {
  const values = state?.values ?? {}
  const output = await joinRun(latest, agent)
  if (!isObject(values) || !isObject(output)) return values
  return Object.fromEntries(Object.entries(values).filter(([name]) => Object.hasOwn(output, name)))
}

/** The answer of the chat model that ends the messages; without one all values. */
function artifactOf(agent: Agent, run: Run, values: Json): Artifact {
  const { run_id } = run
  const type = shownIn(run)
  const onFault = (why: string) =>
    agent.edge.link.log.warn({ run_id, why }, 'a message of A2UI was left out: it is wrong')
  const shown = type && { type, by: 'agent' as const, onFault }
  const messages = messagesIn(values)
  const last = messages.at(-1)
  const said = last?.type === 'ai' ? partsOf(last.content, shown) : []
  const spoken = shown === null ? said : [...said, ...interfacesOfTools(agent.assistant, messages, shown)]
  return { artifactId: run_id, name: 'Assistant Response', parts: spoken.length > 0 ? spoken : [partOf(values)] }
}

/** The newest messages of users and chat models. */
function historyOf(state: ThreadState | null, { id, latest, began }: TaskRuns, { history, scope }: Shown): Message[] {
  const all = messagesIn(state?.values)
  const type = shownIn(latest)
  const from =
    scope === 'task'
      ? Math.max(
          all.findIndex(one => began.includes(`${one.id}`)),
          0,
        )
      : 0
  return all
    .slice(from)
    .flatMap((message, i): Message[] => {
      const by = message.type === 'human' ? 'user' : 'agent'
      const parts = partsOf(message.content, type && { type, by })
      if ((message.type !== 'human' && message.type !== 'ai') || parts.length === 0) return []
      const messageId = typeof message.id === 'string' ? message.id : `${id}:${from + i}`
      return [{ role: by, messageId, contextId: latest.thread_id, parts }]
    })
    .slice(-history)
}

const messagesIn = (values: Json): JsonObject[] => {
  const messages = isObject(values) ? values.messages : null
  return Array.isArray(messages) ? messages.filter(isObject) : []
}

const messageIdsOf = (input: Json): string[] =>
  messagesIn(input).flatMap(({ id }) => (typeof id === 'string' ? [id] : []))

/** Resolves with the task once nothing more happens to it by itself. */
export async function waitFor(agent: Agent, id: string, run: Run): Promise<TaskRuns> {
  if (!isTerminal(run.status)) await joinRun(run, agent)
  return findTask(agent, id)
}
