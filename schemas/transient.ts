/**
 * A map and a set for entries that come and go, as one for each request or run.
 *
 * When the table of a Map is full of deleted entries, V8 goes on in a new one, and the old table points to it. Once a
 * collection has moved a table to the old generation, it keeps its entries and all later tables with theirs until the next
 * full collection: whatever passes through the map is copied into the old generation instead of being dropped. With 64 entries
 * in use that took three times the CPU time (decision 067). Here the whole Map is replaced after a number of insertions, and
 * nothing points from the old to the new one.
 */

/** Insertions until the Map is replaced: at least this many, and some for each entry that must be copied. */
const LEAST = 256
const PER_ENTRY = 4

/** Works like Map. An iteration that inserts may miss what it has inserted. */
export class TransientMap<Key, Value> {
  private entriesNow = new Map<Key, Value>()
  private left = LEAST

  get size(): number {
    return this.entriesNow.size
  }
  get(key: Key): Value | undefined {
    return this.entriesNow.get(key)
  }
  has(key: Key): boolean {
    return this.entriesNow.has(key)
  }
  set(key: Key, value: Value): void {
    if (--this.left < 0) {
      this.entriesNow = new Map(this.entriesNow)
      this.left = insertions(this.entriesNow.size)
    }
    this.entriesNow.set(key, value)
  }
  delete(key: Key): boolean {
    return this.entriesNow.delete(key)
  }
  clear(): void {
    this.entriesNow = new Map()
    this.left = LEAST
  }
  keys(): MapIterator<Key> {
    return this.entriesNow.keys()
  }
  values(): MapIterator<Value> {
    return this.entriesNow.values()
  }
  [Symbol.iterator](): MapIterator<[Key, Value]> {
    return this.entriesNow[Symbol.iterator]()
  }
}

/** Works like Set. An iteration that inserts may miss what it has inserted. */
export class TransientSet<Value> {
  private valuesNow = new Set<Value>()
  private left = LEAST

  get size(): number {
    return this.valuesNow.size
  }
  has(value: Value): boolean {
    return this.valuesNow.has(value)
  }
  add(value: Value): void {
    if (--this.left < 0) {
      this.valuesNow = new Set(this.valuesNow)
      this.left = insertions(this.valuesNow.size)
    }
    this.valuesNow.add(value)
  }
  delete(value: Value): boolean {
    return this.valuesNow.delete(value)
  }
  clear(): void {
    this.valuesNow = new Set()
    this.left = LEAST
  }
  values(): SetIterator<Value> {
    return this.valuesNow.values()
  }
  [Symbol.iterator](): SetIterator<Value> {
    return this.valuesNow[Symbol.iterator]()
  }
}

const insertions = (size: number): number => Math.max(LEAST, PER_ENTRY * size)
