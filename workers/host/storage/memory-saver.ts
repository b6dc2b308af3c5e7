/**
 * The checkpointer of a temporary run: keeps references, serialises nothing, and is dropped with the run. Interrupts,
 * subgraphs and every stream mode work as with a stored one; a lost host restarts such a run from its input.
 */
import type { RunnableConfig } from '@langchain/core/runnables'
import type { BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple } from '@langchain/langgraph'
import type { Library } from '../library/types.js'
import { nextVersion, placeOf, type Write, writeIndex } from './saver-parts.js'

interface Kept {
  id: string
  checkpoint: Checkpoint
  metadata: CheckpointMetadata
  parent: string | null
}

/**
 * Creates a saver for the given copy of the library; `metadata` holds defaults for the metadata of every checkpoint.
 */
export function memorySaver(library: Library, metadata: object): BaseCheckpointSaver {
  return new (classOf(library))(metadata)
}

let made: { library: Library; Class: ReturnType<typeof makeClass> } | null = null
const classOf = (library: Library) => {
  if (made?.library !== library) made = { library, Class: makeClass(library) }
  return made.Class
}

function makeClass(library: Library) {
  return class extends library.BaseCheckpointSaver {
    /** Thread and namespace → checkpoints, oldest first. */
    readonly kept = new Map<string, Kept[]>()
    /** Thread, namespace and checkpoint → writes. Writes may arrive before their checkpoint. */
    readonly writes = new Map<string, Map<string, Write>>()
    constructor(readonly metadata: object) {
      super()
    }

    override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
      const { thread_id, ns, id } = placeOf(config)
      const list = this.kept.get(keyOf(thread_id, ns))
      const found = id === null ? list?.at(-1) : list?.find(kept => kept.id === id)
      return found && this.tupleOf(thread_id, ns, found)
    }

    override async *list(
      config: RunnableConfig,
      options?: { limit?: number; before?: RunnableConfig; filter?: Record<string, unknown> },
    ): AsyncGenerator<CheckpointTuple> {
      const { thread_id, ns } = placeOf(config)
      const before = options?.before && placeOf(options.before).id
      let left = options?.limit ?? Number.POSITIVE_INFINITY
      for (const found of (this.kept.get(keyOf(thread_id, ns)) ?? []).toReversed()) {
        if (left <= 0) return
        if (before && found.id >= before) continue
        const metadata = found.metadata as unknown as Record<string, unknown>
        if (!Object.entries(options?.filter ?? {}).every(([key, value]) => metadata[key] === value)) continue
        left--
        yield this.tupleOf(thread_id, ns, found)
      }
    }

    override async put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata) {
      const { thread_id, ns, id: parent } = placeOf(config)
      const key = keyOf(thread_id, ns)
      const list = this.kept.get(key)
      const kept: Kept = {
        id: checkpoint.id,
        checkpoint,
        metadata: { ...this.metadata, ...metadata },
        parent,
      }
      if (list === undefined) this.kept.set(key, [kept])
      else list.push(kept)
      return { configurable: { thread_id, checkpoint_ns: ns, checkpoint_id: checkpoint.id } }
    }

    override async putWrites(config: RunnableConfig, writes: [string, unknown][], taskId: string): Promise<void> {
      const { thread_id, ns, id } = placeOf(config)
      const outer = `${keyOf(thread_id, ns)}\n${id}`
      const known = this.writes.get(outer) ?? new Map<string, Write>()
      this.writes.set(outer, known)
      writes.forEach(([channel, value], place) => {
        const idx = writeIndex(channel, place)
        const key = `${taskId},${idx}`
        if (idx < 0 || !known.has(key)) known.set(key, [taskId, channel, value])
      })
    }

    override async deleteThread(threadId: string): Promise<void> {
      for (const map of [this.kept, this.writes])
        for (const key of map.keys()) if (key.startsWith(`${threadId}\n`)) map.delete(key)
    }

    override getNextVersion(current: number | undefined): number {
      return nextVersion(current) as unknown as number
    }

    tupleOf(thread_id: string, ns: string, { id, checkpoint, metadata, parent }: Kept): CheckpointTuple {
      const place = (checkpoint_id: string) => ({ configurable: { thread_id, checkpoint_ns: ns, checkpoint_id } })
      return {
        config: place(id),
        // Copied, because the library changes the objects that it receives.
        checkpoint: library.copyCheckpoint(checkpoint),
        metadata,
        ...(parent === null ? {} : { parentConfig: place(parent) }),
        pendingWrites: [...(this.writes.get(`${keyOf(thread_id, ns)}\n${id}`)?.values() ?? [])],
      }
    }
  }
}

const keyOf = (thread_id: string, ns: string): string => `${thread_id}\n${ns}`
