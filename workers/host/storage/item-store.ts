/**
 * The item store that graphs receive as `config.store` and `getStore()`. Operations travel to the resource worker in
 * one message per turn of the event loop, under the lease of the run. An awaited put is stored durably.
 */
import type { Item, ItemAnswer, ItemOperation } from '../../../schemas/items/items.js'
import { ASK } from '../../pipe.js'
import type { Library } from '../library/types.js'
import type { Host } from '../port.js'
import { render, wellFormed } from '../render.js'
import { type Operation, RefusedOperation } from './item-queue.js'

type BaseStore = new () => { batch(operations: Operation[]): Promise<unknown[]> }

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * The store of the run in this slot; undefined if the library of the application has no stores. An object that outlives a
 * run may keep its store, because other servers have one for all runs: an operation is that of the run whose code calls.
 */
export function hostStore(library: Library, host: Host, slot: number): object | undefined {
  const { BaseStore } = library as unknown as { BaseStore?: BaseStore }
  if (BaseStore === undefined) return undefined
  return new (class WeftStore extends BaseStore {
    /** The slot of the operations that the running code starts. */
    slot(): number {
      return host.slot() || slot
    }

    override async batch(operations: Operation[], slot = this.slot()): Promise<unknown[]> {
      const body = encoder.encode(wellFormed(`{"operations":[${operations.map(operationText).join()}]}`))
      const answer = decoder.decode(await host.ask(slot, ASK.items, body))
      const results = (JSON.parse(answer) as ItemAnswer[]).map(resultOf)
      // The queue rejects each refused operation separately.
      if (results.length === 1 && results[0] instanceof RefusedOperation) throw results[0]
      return results
    }
  })()
}

/** Item values may hold types that JSON lacks: they are rendered like state values. */
function operationText(operation: Operation): string {
  const { namespace, key, value, index, namespacePrefix, filter, query, limit, offset } = operation
  if (namespacePrefix !== undefined)
    return json({ op: 'search', namespace_prefix: namespacePrefix, filter, query, limit, offset })
  if (namespace === undefined) return json(listing(operation))
  if (!('value' in operation)) return json({ op: 'get', namespace, key: key! })
  if (value === null || value === undefined) return json({ op: 'delete', namespace, key: key! })
  const text = render(value)
  if (!text.startsWith('{')) throw new TypeError('The value of an item must be an object.')
  return `{"op":"put","namespace":${JSON.stringify(namespace)},"key":${JSON.stringify(key)},"value":${text}${index === undefined ? '' : `,"index":${JSON.stringify(index)}`}}`
}

function listing({ matchConditions = [], maxDepth, limit, offset }: Operation): ItemOperation {
  const pathOf = (type: string) => matchConditions.find(({ matchType }) => matchType === type)?.path
  return { op: 'namespaces', prefix: pathOf('prefix'), suffix: pathOf('suffix'), max_depth: maxDepth, limit, offset }
}

const json = (operation: ItemOperation): string => JSON.stringify(operation)

/** Converts times to the library's form; other values pass unchanged. */
function resultOf(answer: ItemAnswer): unknown {
  if (Array.isArray(answer)) return answer.map(one => (Array.isArray(one) ? one : itemOf(one)))
  if (answer === null) return null
  return 'error' in answer ? new RefusedOperation(answer.error) : itemOf(answer)
}

const itemOf = ({ created_at, updated_at, ...item }: Item) => ({
  ...item,
  createdAt: new Date(created_at),
  updatedAt: new Date(updated_at),
})
