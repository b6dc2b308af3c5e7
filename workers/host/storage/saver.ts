/**
 * The checkpointer of stateful runs: a BaseCheckpointSaver that sends requests to the process that holds the store.
 * Channel values are blobs, stored once per version; a checkpoint refers to them.
 *
 * The saver keeps a reference to the newest checkpoint that this run has put in each namespace. The final state, and a
 * subgraph that runs again, are then read without a request and without reviving values.
 */
import type { RunnableConfig } from '@langchain/core/runnables'
import type { BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple } from '@langchain/langgraph'
import type { CheckpointQuery, TuplesHead } from '../../../schemas/checkpoints.js'
import { contains } from '../../../schemas/contains.js'
import { cutter, unpack } from '../../../schemas/packed.js'
import type { Durability } from '../../../schemas/runs.js'
import type { Library } from '../library/types.js'
import { LARGEST_STATE, StateTooLarge } from '../limits.js'
import type { SaverTransport } from '../port.js'
import { type Outbox, outbox } from './saver-outbox.js'
import { nextVersion, type Place, placeOf, type Write, writeIndex } from './saver-parts.js'
import {
  configOf,
  firstOf,
  isLater,
  ordered,
  type Packed,
  readTuple,
  sendsOf,
  sizeOf,
  TASKS,
  writeKey,
} from './saver-tuples.js'
import { dump } from './saver-values.js'

export interface SaverOptions {
  transport: SaverTransport
  durability: Durability
  /** Returns the next number in the order of the thread's checkpoints. */
  nextSeq(): number
  /** The only thread that this saver may access. Without it the saver keeps no references. */
  thread_id?: string
  /** Packed TuplesHead: the newest checkpoint of the root namespace. Without a tuple the thread has no checkpoint. */
  newest?: Uint8Array
  /** Default members for the metadata of every checkpoint. */
  metadata?: object
  /** Keeps every checkpoint that it puts, not only the newest: for a caller that stores none before the end. */
  keep?: true
  /** Called when a save failed or was refused. */
  failed?(error: unknown): void
}

export interface WeftSaver extends BaseCheckpointSaver {
  readonly outbox: Outbox
  /** Returns the id of the newest checkpoint of the root namespace. */
  head(): string | null
}

/** The last checkpoint that this run has put in a namespace. */
interface Own {
  id: string
  checkpoint: Checkpoint
  metadata: CheckpointMetadata
  parent: string | null
}

const PAGE = 50
/** A page of a list ends when it holds this many bytes. */
const PAGE_BYTES = 32 * 1024 * 1024

/** Creates a saver for the given copy of the library. */
export function createSaver(library: Library, options: SaverOptions): WeftSaver {
  if (made?.library !== library) made = { library, Class: makeClass(library) }
  return new made.Class(options)
}

let made: { library: Library; Class: ReturnType<typeof makeClass> } | null = null

function makeClass(library: Library) {
  return class Saver extends library.BaseCheckpointSaver implements WeftSaver {
    readonly outbox: Outbox
    readonly own = new Map<string, Own>()
    /** Older checkpoints, by namespace and id. */
    readonly kept: Map<string, Own> | null
    /**
     * Writes of this run by namespace and checkpoint, added to the stored writes. They may arrive before their
     * checkpoint: the library chains its puts and does not wait for them.
     */
    readonly written = new Map<string, Map<string, Write>>()
    /** Bytes of the newest blob of each namespace and channel that this run has read or written. */
    readonly sizes = new Map<string, number>()
    readonly started: Packed | null
    readonly fresh: boolean

    constructor(readonly options: SaverOptions) {
      super()
      const { transport, durability, newest } = options
      this.kept = options.keep ? new Map() : null
      this.outbox = outbox({ durability, save: transport.save, failed: error => options.failed?.(error) })
      this.started = newest === undefined ? null : firstOf(newest)
      this.fresh = newest !== undefined && this.started === null
      for (const { channel, size } of this.started?.entry.blobs ?? []) this.sizes.set(checkpointKey('', channel), size)
    }

    head(): string | null {
      return this.own.get('')?.id ?? this.started?.entry.id ?? null
    }

    override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
      if (config.configurable?.thread_id === undefined) return undefined
      const place = this.placeOf(config)
      const { thread_id, ns, id } = place
      const own = this.own.get(ns)
      if (own !== undefined && (id === null || id === own.id)) return this.ownTuple(place, own)
      const kept = id === null ? undefined : this.kept?.get(checkpointKey(ns, id))
      if (kept !== undefined) return this.ownTuple(place, kept)
      if (own === undefined && this.fresh) return undefined
      if (ns === '' && this.started !== null && (id ?? this.started.entry.id) === this.started.entry.id)
        return this.read(thread_id, this.started, this.written.get(checkpointKey('', this.started.entry.id)))
      await this.outbox.flush()
      const { transport } = this.options
      const answer = await transport.get({ thread_id, ns, ...(id === null ? {} : { checkpoint_id: id }) })
      const found = firstOf(answer)
      if (found === null) return undefined
      return this.read(thread_id, found, this.kept ? this.written.get(checkpointKey(ns, found.entry.id)) : undefined)
    }

    override async *list(
      config: RunnableConfig,
      options: { limit?: number; before?: RunnableConfig; filter?: Record<string, unknown> } = {},
    ): AsyncGenerator<CheckpointTuple> {
      const { transport } = this.options
      await this.outbox.flush()
      let left = options.limit ?? Number.POSITIVE_INFINITY
      for (const thread_id of await this.threadsOf(config)) {
        for await (const tuple of this.page(transport, thread_id, config, options)) {
          if (left-- <= 0) return
          yield tuple
        }
      }
    }

    override async put(
      config: RunnableConfig,
      checkpoint: Checkpoint,
      metadata: CheckpointMetadata,
      newVersions: Record<string, string | number>,
    ) {
      const { thread_id, ns, id: parent } = this.placeOf(config)
      const { id, channel_values, channel_versions } = checkpoint
      const full = { ...this.options.metadata, ...metadata }
      const refs: { [channel: string]: string } = {}
      const blobs: { channel: string; version: string; dumped: ReturnType<typeof dump> }[] = []
      for (const channel of Object.keys(channel_values)) {
        const version = channel_versions[channel] ?? newVersions[channel]
        if (version === undefined || channel_values[channel] === undefined) continue
        refs[channel] = String(version)
        if (newVersions[channel] === undefined) continue
        blobs.push({ channel, version: String(version), dumped: dump(this.serde, channel_values[channel]) })
      }
      if (this.options.thread_id !== undefined) {
        // Keep the writes of the checkpoint that the run started from: its original state is read without a request.
        const last = this.own.get(ns)?.id
        if (last !== undefined && last !== id && this.kept === null) this.written.delete(checkpointKey(ns, last))
        const own = { id, checkpoint, metadata: full, parent }
        this.own.set(ns, own)
        this.kept?.set(checkpointKey(ns, id), own)
      }
      const seq = this.options.nextSeq()
      // Everything is serialised before the first await: the graph continues and may change its values.
      const dumped = [
        dump(this.serde, { ...checkpoint, channel_values: {} }),
        dump(this.serde, full),
        ...blobs.map(blob => blob.dumped),
      ]
      const [value, meta, ...values] = await settled(dumped)
      const [type, bytes] = value!
      const [meta_type, metaBytes] = meta!
      const sizes = { type, size: bytes.length, meta_type, meta_size: metaBytes.length }
      for (const [i, { channel }] of blobs.entries()) this.sizes.set(checkpointKey(ns, channel), values[i]![1].length)
      const all = Object.keys(refs).reduce((sum, channel) => sum + (this.sizes.get(checkpointKey(ns, channel)) ?? 0), 0)
      if (all > LARGEST_STATE) {
        const error = new StateTooLarge('The values of the state', all)
        this.outbox.close(error)
        throw error
      }
      await this.outbox.add(thread_id, {
        checkpoint: { entry: { ns, id, parent, seq, ...sizes, refs }, value: bytes, metadata: metaBytes },
        blobs: blobs.map(({ channel, version }, i) => {
          const [type, value] = values[i]!
          return { entry: { ns, channel, version, type, size: value.length }, value }
        }),
      })
      return configOf(thread_id, ns, id)
    }

    override async putWrites(config: RunnableConfig, writes: [string, unknown][], taskId: string): Promise<void> {
      const { thread_id, ns, id } = this.placeOf(config)
      if (id === null) throw new Error('Writes need "checkpoint_id" in the "configurable" of their config.')
      this.remember(ns, id, writes, taskId)
      const values = await settled(writes.map(([, value]) => dump(this.serde, value)))
      await this.outbox.add(thread_id, {
        writes: writes.map(([channel], place) => {
          const [type, value] = values[place]!
          const idx = writeIndex(channel, place)
          return { entry: { ns, checkpoint_id: id, task_id: taskId, idx, channel, type, size: value.length }, value }
        }),
      })
    }

    override async deleteThread(threadId: string): Promise<void> {
      const { transport } = this.options
      if (transport.remove === undefined) throw new Error('A run cannot delete its own thread.')
      await this.outbox.flush()
      this.own.clear()
      this.written.clear()
      await transport.remove(threadId)
    }

    override getNextVersion(current: number | undefined): number {
      return nextVersion(current) as unknown as number
    }

    placeOf(config: RunnableConfig): Place {
      const place = placeOf(config)
      const { thread_id } = this.options
      if (thread_id !== undefined && place.thread_id !== thread_id)
        throw new Error(`A run of thread ${thread_id} cannot use the checkpoints of thread ${place.thread_id}.`)
      return place
    }

    remember(ns: string, id: string, writes: [string, unknown][], taskId: string): void {
      if (this.options.thread_id === undefined) return
      const key = checkpointKey(ns, id)
      const known = this.written.get(key) ?? new Map<string, Write>()
      this.written.set(key, known)
      writes.forEach(([channel, value], place) => {
        const idx = writeIndex(channel, place)
        const key = writeKey(taskId, idx)
        if (idx < 0 || !known.has(key)) known.set(key, [taskId, channel, value])
      })
    }

    ownTuple({ thread_id, ns }: Place, own: Own): CheckpointTuple {
      return {
        config: configOf(thread_id, ns, own.id),
        // Copied, because the library changes the objects that it receives.
        checkpoint: library.copyCheckpoint(own.checkpoint),
        metadata: own.metadata,
        ...(own.parent === null ? {} : { parentConfig: configOf(thread_id, ns, own.parent) }),
        pendingWrites: ordered(this.written.get(checkpointKey(ns, own.id))),
      }
    }

    async read(thread_id: string, { entry, rest }: Packed, over?: Map<string, Write>): Promise<CheckpointTuple> {
      const tuple = await readTuple(this.serde, thread_id, entry, rest, over)
      const { checkpoint } = tuple
      if (checkpoint.v >= 4 || entry.parent === null) return tuple
      // Before version 4 the sends of a checkpoint were writes of its parent.
      const query = { thread_id, ns: entry.ns, checkpoint_id: entry.parent }
      checkpoint.channel_values[TASKS] = await sendsOf(this.serde, await this.options.transport.get(query))
      const versions = Object.values(checkpoint.channel_versions)
      checkpoint.channel_versions[TASKS] =
        versions.length > 0 ? versions.reduce((a, b) => (isLater(a, b) ? a : b)) : this.getNextVersion(undefined)
      return tuple
    }

    async threadsOf({ configurable }: RunnableConfig): Promise<string[]> {
      if (configurable?.thread_id) return [this.placeOf({ configurable }).thread_id]
      if (this.options.thread_id !== undefined) return [this.options.thread_id]
      return (await this.options.transport.threads?.()) ?? []
    }

    async *page(
      transport: SaverTransport,
      thread_id: string,
      { configurable }: RunnableConfig,
      { limit, before, filter }: { limit?: number; before?: RunnableConfig; filter?: Record<string, unknown> },
    ): AsyncGenerator<CheckpointTuple> {
      const only = configurable?.checkpoint_id
      const narrow = filter !== undefined && Object.keys(filter).length > 0
      const size = narrow ? PAGE : Math.min(limit ?? PAGE, PAGE)
      let bound: string | undefined = before?.configurable?.checkpoint_id
      for (;;) {
        const query: CheckpointQuery = { thread_id, limit: size, bytes: PAGE_BYTES }
        if (only) query.checkpoint_id = only
        if (configurable?.checkpoint_ns !== undefined) query.ns = configurable.checkpoint_ns
        if (bound !== undefined) query.before = bound
        const { head, rest } = unpack<TuplesHead>(await transport.list(query))
        const cut = cutter(rest)
        let bytes = 0
        for (const entry of head.tuples) {
          bytes += sizeOf(entry)
          const tuple = await this.read(thread_id, { entry, rest: cut(sizeOf(entry)) })
          if (!narrow || contains(tuple.metadata, filter)) yield tuple
        }
        // A short page that did not reach the byte limit is the last page.
        if (head.tuples.length === 0 || (head.tuples.length < size && bytes < PAGE_BYTES)) return
        bound = head.tuples.at(-1)!.id
      }
    }
  }
}

const checkpointKey = (ns: string, id: string): string => `${ns}\n${id}`
/** Takes no turn of the microtask queue if no value is pending. */
function settled<T>(values: (T | Promise<T>)[]): T[] | Promise<T[]> {
  return values.some(value => value instanceof Promise) ? Promise.all(values) : (values as T[])
}
