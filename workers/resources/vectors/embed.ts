/**
 * Vectors of texts, from the embedder of an application (`store.index` of langgraph.json). Its code runs in the app host
 * of a graph worker of the application; this asks that worker.
 */
import type { Caller } from '../../../bus/call.js'
import type { EmbedCall } from '../../../schemas/app-host.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import type { ItemIndex, ItemPut } from '../../../schemas/items/items.js'
import { host } from '../../../schemas/subjects.js'
import type { Apps } from '../apps.js'
import { type AppSettings, activeSettings } from '../rows/app-settings.js'
import { textsOf, WHOLE } from './texts.js'

export interface EmbedDeps {
  caller: Caller
  apps: Apps
  settings: AppSettings
}

/** A model that is called over a network takes its time. */
const EMBED_MS = 30_000
/** A graph worker that gives no sign for this time is not the one that answers. */
const SILENCE_MS = 2_000
/** Texts of one call to the embedder. */
const AT_ONCE = 500
/** Bytes of the vectors of one item. */
const MAX_BYTES = 1024 * 1024

/** The index of the revision that serves now; null: the application has none. */
export const indexOf = (deps: EmbedDeps, app: string): Promise<ItemIndex | null> =>
  activeSettings(deps, 'item_index', app)

/**
 * The vectors of each item that is written (store/port.ts ItemVectors), in the order of the items; empty for an item
 * without any. Throws `invalid` with a sentence when a text cannot be embedded, `unavailable` without a graph worker.
 */
export async function embedItems(deps: EmbedDeps, app: string, puts: readonly ItemPut[]): Promise<Uint8Array[]> {
  const wanted = puts.filter(({ index }) => index !== false && index?.length !== 0)
  const index = wanted.length === 0 ? null : await indexOf(deps, app)
  if (index === null) return puts.map(() => NOTHING)
  const fields = index.fields ?? [WHOLE]
  const texts = puts.map(({ value, index }) => (index === false ? [] : textsOf(value, index ?? fields)))
  const most = Math.floor(MAX_BYTES / (index.dims * FLOAT))
  for (const { length } of texts)
    if (length > most)
      throw fail(
        'invalid',
        `index: an item may have ${most} texts with vectors of ${index.dims} numbers, got ${length}`,
      )
  const all = [...new Set(texts.flat())]
  const vectors = await embed(deps, index, 'documents', all)
  const byText = new Map(all.map((text, i) => [text, vectors[i]!]))
  return texts.map(some => Buffer.concat(some.map(text => byText.get(text)!)))
}

/** The vector of a text that is searched for. Throws as `embedItems`. */
export async function embedQuery(deps: EmbedDeps, index: ItemIndex, text: string): Promise<Float32Array> {
  const [bytes] = await embed(deps, index, 'query', [text])
  return new Float32Array(new Uint8Array(bytes!).buffer)
}

const NOTHING = new Uint8Array(0)
const FLOAT = Float32Array.BYTES_PER_ELEMENT

/** The bytes of each vector. */
async function embed(
  { caller }: EmbedDeps,
  { pool, dims }: ItemIndex,
  kind: EmbedCall['kind'],
  texts: readonly string[],
): Promise<Uint8Array[]> {
  const subject = host(token('pool', pool), 'embed')
  const vectors: Uint8Array[] = []
  for (let at = 0; at < texts.length; at += AT_ONCE) {
    const some = texts.slice(at, at + AT_ONCE)
    const call: EmbedCall = { verb: 'embed', kind, texts: some }
    const options = { timeout: EMBED_MS, silence: SILENCE_MS, repeat: true }
    const { body } = await caller.ask(subject, { request_id: '' }, Buffer.from(JSON.stringify(call)), options)
    const size = dims * FLOAT
    if (body.length !== some.length * size) throw fail('unavailable', OTHER_SIZE)
    for (let i = 0; i < some.length; i++) vectors.push(body.subarray(i * size, (i + 1) * size))
  }
  return vectors
}

const OTHER_SIZE = 'The embedder answers vectors of another size than was announced: the application is being changed'
