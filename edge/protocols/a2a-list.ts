/**
 * The tasks of an agent (version 1.0): those of one context, or thread by thread those of all contexts whose last run was
 * one of the agent. Threads that changed last come first, and in a thread the newest task.
 */

import { isUuid } from '../../schemas/ids.js'
import { A2A_STATES, A2aError, type ListParams } from '../../schemas/protocols/a2a.js'
import { type Agent, listRuns, listThreads, type Run } from './a2a-agent.js'
import { findTask, readTask, type TaskRuns, taskIdOf } from './a2a-task.js'
import { spellState, type Task } from './a2a-wire.js'

const PAGE_SIZE = 50
/** Newest runs of a thread that are looked at. */
const RUNS = 1_000
/** Threads that are looked at for one page: where few tasks match, a page is short. */
const THREADS = 100
/** Tasks that are read at the same time. */
const AT_ONCE = 10

const STATES = A2A_STATES.map(spellState)

export interface TaskPage {
  tasks: Task[]
  /** '': this is the last page. */
  nextPageToken: string
  pageSize: number
  /** The tasks of this page and those before it, and one if there are more. */
  totalSize: number
}

export async function listTasks(agent: Agent, params: ListParams): Promise<TaskPage> {
  const pageSize = params.pageSize ?? PAGE_SIZE
  const isWanted = filterOf(params)
  const scope = params.historyScope ?? agent.historyScope ?? 'context'
  const shown = { history: params.historyLength ?? 0, scope, artifacts: params.includeArtifacts ?? false }
  const needsFirst = shown.history > 0 && scope === 'task'
  let { thread, task, seen } = placeOf(params.pageToken || '')
  const threads = await threadsFrom(agent, params.contextId || null, thread)
  const end = thread + threads.length
  const tasks: Task[] = []
  for (const thread_id of threads) {
    const all = tasksOf(agent, await runsOf(agent, thread_id))
    while (task < all.length && tasks.length < pageSize) {
      const some = all.slice(task, task + Math.min(AT_ONCE, pageSize - tasks.length))
      task += some.length
      const read = some.map(async one => readTask(agent, needsFirst ? await findTask(agent, one.id) : one, shown))
      tasks.push(...(await Promise.all(read)).filter(isWanted))
    }
    if (task < all.length) break
    thread++
    task = 0
    if (tasks.length === pageSize) break
  }
  const isLast = thread === end && threads.length < THREADS
  seen += tasks.length
  return {
    tasks,
    nextPageToken: isLast ? '' : `${thread}.${task}.${seen}`,
    pageSize,
    totalSize: isLast ? seen : seen + 1,
  }
}

/** Where a page begins: a thread in the order of the list, and a task in it. `seen` tasks came before. */
function placeOf(token: string): { thread: number; task: number; seen: number } {
  if (token === '') return { thread: 0, task: 0, seen: 0 }
  if (!/^\d{1,9}\.\d{1,9}\.\d{1,9}$/.test(token))
    throw new A2aError('params', 'pageToken: expected the nextPageToken of an earlier answer')
  const [thread, task, seen] = token.split('.').map(Number) as [number, number, number]
  return { thread, task, seen }
}

async function threadsFrom(agent: Agent, contextId: string | null, offset: number): Promise<string[]> {
  if (contextId === null) return listThreads(agent, { limit: THREADS, offset })
  if (!isUuid(contextId)) throw new A2aError('params', 'contextId: expected a UUID')
  return offset === 0 ? [contextId] : []
}

/** A context that the client does not see has no tasks for it. */
const runsOf = (agent: Agent, thread_id: string): Promise<Run[]> =>
  listRuns(agent, thread_id, { limit: RUNS }, { 404: 'no_task' }).catch(error => {
    if (error instanceof A2aError && error.code === 'no_task') return []
    throw error
  })

/** The tasks of the agent among the runs, each by its latest run. */
function tasksOf(agent: Agent, runs: readonly Run[]): TaskRuns[] {
  const tasks = new Map<string, TaskRuns>()
  for (const run of runs) {
    const id = taskIdOf(run)
    if (run.assistant_id !== agent.assistant.assistant_id || tasks.has(id)) continue
    tasks.set(id, { id, latest: run, isNewest: taskIdOf(runs[0]!) === id, began: [] })
  }
  return [...tasks.values()]
}

function filterOf({ status, statusTimestampAfter }: ListParams): (task: Task) => boolean {
  const wanted = !status || status === 'TASK_STATE_UNSPECIFIED' ? null : status
  if (wanted !== null && !STATES.includes(wanted))
    throw new A2aError('params', `status: expected ${STATES.join(' or ')}`)
  const after = statusTimestampAfter ? Date.parse(statusTimestampAfter) : Number.NEGATIVE_INFINITY
  return ({ status: { state, timestamp } }) =>
    (wanted === null || spellState(state) === wanted) && Date.parse(timestamp) >= after
}
