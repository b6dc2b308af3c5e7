/** The operations of a graph on the store, which come in one message per turn of its host. */
import type { Reply } from '../../../bus/serve.js'
import type { Lease } from '../../../schemas/calls.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import type { ItemBatch, ItemOperation, ItemPut } from '../../../schemas/items/items.js'
import type { Step } from '../../../store/steps.js'
import { wholeApp } from '../access.js'
import type { Deps } from '../context.js'
import { itemText } from '../rows/text.js'
import { embedItems } from '../vectors/embed.js'
import { appStoreOf } from './app-store.js'
import { getItem, listNamespaces, searchItems } from './read.js'
import { putStep, removeStep } from './write.js'

/** The operations of a run, in order; puts in a row are one write. Throws `fenced` for an attempt that lost its run. */
export async function batch(deps: Deps, { run_id, attempt, token }: Lease, { operations }: ItemBatch): Promise<Reply> {
  const [run] = await deps.store.runs.summary([run_id])
  if (run === undefined || run.attempt !== attempt || run.token !== token) throw fail('fenced')
  const { app } = run
  const own = await appStoreOf(deps, app)
  if (own !== null) return { body: jsonText(await own.carryOut(operations)) }
  const puts = operations.filter(operation => operation.op === 'put')
  const vectors = await embedAll(deps, app, puts)
  const answers: string[] = []
  let writes: Step[] = []
  const flush = async () => {
    const steps = writes
    writes = []
    if (steps.length > 0) await deps.store.apply(steps)
    for (const step of steps) if (step.step === 'items.put') deps.rankings.note(app, step.row)
  }
  for (const operation of operations)
    try {
      if (operation.op === 'put' || operation.op === 'delete') {
        writes.push(
          operation.op === 'put' ? await putStep(deps, app, operation, vectors(operation)) : removeStep(app, operation),
        )
        answers.push('null')
        continue
      }
      await flush()
      answers.push(await answerText(deps, app, operation))
    } catch (error) {
      // An operation that breaks the rules is no failure of those beside it.
      if (!(error instanceof WeftError) || error.code !== 'invalid') throw error
      answers.push(JSON.stringify({ error: error.message }))
    }
  await flush()
  return { body: `[${answers.join()}]` }
}

/** The vectors of each put; those of one whose texts cannot be embedded are thrown when they are read. */
async function embedAll(deps: Deps, app: string, puts: readonly ItemPut[]): Promise<(put: ItemPut) => Uint8Array> {
  const made = new Map<ItemPut, Uint8Array | WeftError>()
  const set = (some: readonly ItemPut[], vectors: readonly Uint8Array[]) => {
    for (const [i, put] of some.entries()) made.set(put, vectors[i]!)
  }
  const all = await embedItems(deps, app, puts).catch(error => asRefusal(error))
  if (Array.isArray(all)) set(puts, all)
  // One of them breaks a rule: each for itself.
  else
    for (const put of puts) {
      const own = await embedItems(deps, app, [put]).catch(error => asRefusal(error))
      if (Array.isArray(own)) set([put], own)
      else made.set(put, own)
    }
  return put => {
    const found = made.get(put)!
    if (found instanceof WeftError) throw found
    return found
  }
}

/** An operation that breaks the rules is refused; any other error concerns all of them. */
function asRefusal(error: unknown): WeftError {
  if (error instanceof WeftError && error.code === 'invalid') return error
  throw error
}

async function answerText(
  deps: Deps,
  app: string,
  operation: Exclude<ItemOperation, { op: 'put' | 'delete' }>,
): Promise<string> {
  if (operation.op === 'search') return `[${(await searchItems(deps, wholeApp(app), operation)).map(itemText).join()}]`
  if (operation.op === 'namespaces') return JSON.stringify(await listNamespaces(deps, wholeApp(app), operation))
  const row = await getItem(deps, wholeApp(app), operation, null)
  return row === null ? 'null' : itemText(row)
}
