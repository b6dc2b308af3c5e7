/**
 * The history of a thread as `supersteps` of POST /threads, which applies what each step wrote: the nodes do not run
 * again, but the edges after them do. What the answers of a server do not say cannot be brought: states of subgraphs,
 * times, ids of checkpoints, branches that the newest state does not descend from.
 */
import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../../../schemas/json.js'
import type { Superstep, ThreadState } from '../../../schemas/threads.js'

type State = Pick<ThreadState, 'values' | 'next' | 'tasks' | 'checkpoint' | 'parent_checkpoint' | 'metadata'>
type Written = Superstep['updates'][number]['values']

/** The line from the first state to the newest, oldest first. `states`: newest first, as a server answers them. */
export function lineage(states: readonly State[]): State[] {
  const byId = new Map(states.map(state => [state.checkpoint?.checkpoint_id, state]))
  const line: State[] = []
  for (let at = states[0]; at !== undefined && !line.includes(at); ) {
    line.unshift(at)
    const parent = at.parent_checkpoint?.checkpoint_id
    at = parent ? byId.get(parent) : undefined
  }
  return line
}

/** The function of a functional graph, which has no node `__start__`; null for other graphs, or when no input is known. */
export function functionOf(line: readonly State[]): string | null {
  const starts = line.filter(({ metadata, tasks }) => metadata.source === 'input' && tasks.length > 0)
  const [first] = starts
  if (first === undefined || starts.some(({ tasks }) => tasks.some(({ name }) => name === '__start__'))) return null
  return first.tasks[0]!.name
}

/** Null: a step wrote what the history does not say. */
export function superstepsOf(line: readonly State[]): Superstep[] | null {
  const steps: Superstep[] = []
  const body = functionOf(line)
  const tasks = line.map((state, i) => tasksOf(state, line[i + 1]))
  for (const [i, { metadata }] of line.entries()) {
    const before = tasks[i - 1]
    // A function gets its input as it is: the history does not show it.
    if (metadata.source === 'input' && body !== null) steps.push(one('__input__', {}))
    else if (metadata.source === 'input')
      steps.push(one('__input__', tasks[i]!.find(({ name }) => name === '__start__')?.result))
    else if (metadata.source === 'loop' && before !== undefined && before.length > 0)
      // Tasks that an entrypoint calls belong to its run.
      steps.push({
        updates: before
          .filter(({ name }) => body === null || name === body)
          .map(({ name, result }) => update(name, result)),
      })
    else if (metadata.source === 'update' && isObject(metadata.writes) && Object.keys(metadata.writes).length > 0)
      steps.push({ updates: Object.entries(metadata.writes).map(([node, values]) => update(node, values)) })
    else return null
  }
  return steps
}

type TaskWrites = Pick<State['tasks'][number], 'name' | 'result'>

/**
 * The tasks of a state with what they wrote. A message that was written without an id has got one by the reducer of its
 * key: it is taken from the next state, because another id would be another message. It may be written as a text or a pair.
 */
function tasksOf({ values, tasks }: State, next: State | undefined): TaskWrites[] {
  if (next === undefined || !isObject(next.values)) return tasks
  const keys = new Set(tasks.flatMap(({ result }) => (isObject(result) ? Object.keys(result) : [])))
  const found = new Map<string, Json[]>()
  for (const key of keys) {
    const known = new Set(listIn(values, key).map(idOf))
    const written = tasks.flatMap(({ result }) => listIn(result, key))
    const added = listIn(next.values, key).filter(message => !known.has(idOf(message)))
    if (added.length > 0 && added.every(isMessage) && written.length === added.length) found.set(key, added)
  }
  return tasks.map(({ name, result }) => {
    if (!isObject(result)) return { name, result }
    const full = Object.entries(result).map(([key, value]) => {
      const messages = found.get(key)?.splice(0, listIn(result, key).length) ?? []
      return [key, messages.length === 0 ? value : Array.isArray(value) ? messages : messages[0]!] as const
    })
    return { name, result: Object.fromEntries(full) }
  })
}

/** The value of a key as a list: a single message may be written without one. */
function listIn(values: Json, key: string): Json[] {
  const value = isObject(values) ? (values as JsonObject)[key] : undefined
  return value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]
}

const isMessage = (value: Json): boolean =>
  isObject(value) && 'content' in value && ('type' in value || 'role' in value)
const idOf = (value: Json): Json => (isObject(value) ? ((value as JsonObject).id ?? null) : null)

const update = (as_node: string, values: unknown) => ({ as_node, values: (values ?? null) as Written })
const one = (as_node: string, values: unknown): Superstep => ({ updates: [update(as_node, values)] })

/** The newest values alone, of a thread that waits for its next input. `body`: the function of a functional graph. */
export const valuesOnly = ({ values }: State, body: string | null): Superstep[] =>
  body === null
    ? [one('__input__', values), one('__start__', values), one('__end__', null)]
    : [one('__input__', {}), one(body, values)]

/** Whether a thread here has the state that it has there. */
export const isSame = (there: State, here: State): boolean =>
  isDeepStrictEqual(there.values, here.values) && isDeepStrictEqual([...there.next].sort(), [...here.next].sort())

/** The keys of a state that differ; a state that is not an object counts as one key. */
export function differences(there: Json, here: Json): string[] {
  if (!isObject(there) || !isObject(here)) return isDeepStrictEqual(there, here) ? [] : ['the state']
  const [a, b] = [there as JsonObject, here as JsonObject]
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(key => !isDeepStrictEqual(a[key], b[key])).sort()
}
