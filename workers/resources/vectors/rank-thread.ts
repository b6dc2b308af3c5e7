/**
 * The thread that ranks the vectors of one application: exact cosine similarity over all of them, in memory. Vectors are
 * kept at length 1, so that a similarity is one product. An item has the score of its best vector.
 */
import { parentPort, workerData } from 'node:worker_threads'

/** The path of the namespace, the key, and when the item was written. */
export type Ref = [path: string, key: string, updated_at: number]

/** One request; each is answered, in order. */
export type RankCall =
  /** Answer: those that are not here as they are. */
  | { do: 'missing'; refs: Ref[] }
  /** Answer: the number of vectors here. Vectors of another size are left out. */
  | { do: 'put'; items: { ref: Ref; vectors: Uint8Array }[] }
  /** Answer: as put. */
  | { do: 'drop'; refs: Ref[] }
  /** Answer: Ranked[], best first. */
  | { do: 'rank'; query: Float32Array; prefix: string; from: number; count: number }

export interface Ranked {
  ref: Ref
  score: number
}

export interface RankData {
  dims: number
}

interface Entry {
  ref: Ref
  slots: number[]
}

const PER_SLAB = 1024
const { dims } = workerData as RankData
const slabs: Float32Array[] = []
const free: number[] = []
const entries = new Map<string, Entry>()
let slots = 0

const idOf = ([path, key]: Ref): string => `${path}\0${key}`
const slabOf = (slot: number): Float32Array => slabs[Math.floor(slot / PER_SLAB)]!
const startOf = (slot: number): number => (slot % PER_SLAB) * dims

function put(ref: Ref, bytes: Uint8Array): void {
  drop(ref)
  const all = new Float32Array(new Uint8Array(bytes).buffer)
  if (all.length === 0 || all.length % dims !== 0) return
  const entry: Entry = { ref, slots: [] }
  for (let at = 0; at < all.length; at += dims) {
    const slot = free.pop() ?? slots++
    if (slot === slabs.length * PER_SLAB) slabs.push(new Float32Array(PER_SLAB * dims))
    slabOf(slot).set(unit(all.subarray(at, at + dims)), startOf(slot))
    entry.slots.push(slot)
  }
  entries.set(idOf(ref), entry)
}

function drop(ref: Ref): void {
  const entry = entries.get(idOf(ref))
  if (entry === undefined) return
  free.push(...entry.slots)
  entries.delete(idOf(ref))
}

/** The vector with length 1; one without a direction stays 0 and is similar to nothing. */
function unit(vector: Float32Array): Float32Array {
  let sum = 0
  for (const x of vector) sum += x * x
  const length = Math.sqrt(sum)
  return length === 0 ? vector : vector.map(x => x / length)
}

function rank({ query, prefix, from, count }: Extract<RankCall, { do: 'rank' }>): Ranked[] {
  const wanted = unit(query)
  const found: Ranked[] = []
  for (const { ref, slots } of entries.values()) {
    if (!ref[0].startsWith(prefix)) continue
    let score = Number.NEGATIVE_INFINITY
    for (const slot of slots) score = Math.max(score, product(wanted, slabOf(slot), startOf(slot)))
    found.push({ ref, score })
  }
  return found.sort(byScore).slice(from, from + count)
}

function product(a: Float32Array, b: Float32Array, start: number): number {
  let sum = 0
  for (let i = 0; i < dims; i++) sum += a[i]! * b[start + i]!
  return sum
}

/** Equal scores: most recently written first. */
const byScore = (a: Ranked, b: Ranked): number =>
  b.score - a.score || b.ref[2] - a.ref[2] || (idOf(a.ref) < idOf(b.ref) ? 1 : -1)

function answer(call: RankCall): Ref[] | number | Ranked[] {
  if (call.do === 'rank') return rank(call)
  if (call.do === 'missing') return call.refs.filter(ref => entries.get(idOf(ref))?.ref[2] !== ref[2])
  if (call.do === 'put') for (const { ref, vectors } of call.items) put(ref, vectors)
  else for (const ref of call.refs) drop(ref)
  return slots - free.length
}

parentPort!.on('message', (call: RankCall) => parentPort!.postMessage(answer(call)))
