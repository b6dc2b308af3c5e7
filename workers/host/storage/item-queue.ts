/** The queue that the library puts in front of the store of a run, sent once per turn of the event loop. */
import type { JsonObject } from '../../../schemas/json.js'

/** The operations of the library's BaseStore, distinguished by their members. */
export type Operation = {
  namespace?: string[]
  key?: string
  value?: unknown
  index?: false | string[]
  namespacePrefix?: string[]
  filter?: JsonObject
  query?: string
  limit?: number
  offset?: number
  maxDepth?: number
  matchConditions?: { matchType: 'prefix' | 'suffix'; path: string[] }[]
}

/** The store refused the operation because it breaks a rule of the store. */
export class RefusedOperation extends Error {
  override name = 'InvalidOperation'
}

interface Waiting {
  operation: Operation
  /** The slot whose code has started it; undefined in a store of the application's own. */
  slot: number | undefined
  resolve(value: unknown): void
  reject(error: unknown): void
}

interface Batched {
  store: { slot?(): number; batch(operations: Operation[], slot?: number): Promise<unknown[]> }
  queue: Map<number, Waiting>
  nextKey: number
  running: boolean
  flushing?: Promise<void> | null
}

/**
 * The library wraps a store in a queue that a timer polls for the whole run: 1,000 runs in a host cause a thousand
 * timers per millisecond. This queue is sent at the end of the turn that filled it. Also, the library's wrapper loses
 * `index` and rejects `listNamespaces`.
 */
export function tuneStores(wrapper: { prototype: object } | undefined): void {
  if (wrapper === undefined) return
  const prototype = wrapper.prototype as unknown as Batched & { [method: string]: unknown }
  if (typeof prototype.enqueueOperation !== 'function' || typeof prototype.processBatchQueue !== 'function') return
  const flush = async (self: Batched): Promise<void> => {
    const all = [...self.queue.values()]
    self.queue.clear()
    // Several runs may call a store that an object keeps.
    const slots = [...new Set(all.map(({ slot }) => slot))]
    await Promise.all(
      slots.map(slot =>
        send(
          self,
          all.filter(each => each.slot === slot),
          slot,
        ),
      ),
    )
  }
  const send = async ({ store }: Batched, waiting: Waiting[], slot: number | undefined): Promise<void> => {
    try {
      const results = await store.batch(
        waiting.map(({ operation }) => operation),
        slot,
      )
      for (const [i, { resolve, reject }] of waiting.entries())
        if (results[i] instanceof RefusedOperation) reject(results[i])
        else resolve(results[i])
    } catch (error) {
      for (const { reject } of waiting) reject(error)
    }
  }
  Object.assign(prototype, {
    start(this: Batched) {
      this.running = true
    },
    async stop(this: Batched) {
      this.running = false
      await this.flushing
    },
    enqueueOperation(this: Batched, operation: Operation) {
      return new Promise((resolve, reject) => {
        this.queue.set(this.nextKey++, { operation, slot: this.store.slot?.(), resolve, reject })
        if (this.queue.size > 1) return
        const before = this.flushing
        const mine = new Promise<void>(done => setImmediate(done))
          // In the order of the turns: a get returns the result of a put from the previous turn.
          .then(() => before)
          .then(() => flush(this))
          .finally(() => this.flushing === mine && (this.flushing = null))
        this.flushing = mine
      })
    },
    put(this: Batched & { enqueueOperation(operation: Operation): Promise<unknown> }, ...args: unknown[]) {
      const [namespace, key, value, index] = args as [string[], string, unknown, Operation['index']]
      return this.enqueueOperation({ namespace, key, value, ...(index === undefined ? {} : { index }) })
    },
    listNamespaces(
      this: Batched & { enqueueOperation(operation: Operation): Promise<unknown> },
      options: { prefix?: string[]; suffix?: string[]; maxDepth?: number; limit?: number; offset?: number } = {},
    ) {
      const { prefix, suffix, maxDepth, limit = 100, offset = 0 } = options
      const matchConditions = (['prefix', 'suffix'] as const).flatMap(matchType => {
        const path = matchType === 'prefix' ? prefix : suffix
        return path === undefined ? [] : [{ matchType, path }]
      })
      return this.enqueueOperation({ matchConditions, maxDepth, limit, offset })
    },
  })
}
