/** The replicas in containers that have said they are ready (workers/deploy/replica.ts). A silent one is forgotten. */
import type { Link } from '../../../bus/connect.js'
import { type Graph, poolOf, REPLICA_BEAT_MS, validateReplicaBeat } from '../../../schemas/deploy-calls.js'
import { token } from '../../../schemas/ids.js'
import { beat } from '../../../schemas/subjects.js'

/** Three beats. */
const SILENT_MS = 3 * REPLICA_BEAT_MS + 1_000
const decoder = new TextDecoder()

export interface Beats {
  /** The graphs of a replica that is ready; null when it is not, or has been silent. */
  graphsOf(revision_id: string, replica: string): Graph[] | null
  /** The replica has exited: only a new beat counts. */
  forget(revision_id: string, replica: string): void
  /** Calls back for each beat of the revision. Returns how to stop that. */
  on(revision_id: string, onBeat: () => void): () => void
  close(): void
}

/** Code of an application may send beats, too. */
const MAX_REPLICAS = 200
const MAX_BEAT = 256 * 1024

interface Heard {
  at: number
  graphs: Graph[]
}

export function openBeats(link: Pick<Link, 'subscribe'>): Beats {
  const revisions = new Map<string, Map<string, Heard>>()
  const listeners = new Map<string, Set<() => void>>()
  const subscription = link.subscribe(beat('*'), ({ data, subject }) => {
    if (data.length > MAX_BEAT) throw new Error('a beat of a replica is too large')
    const parsed = validateReplicaBeat(JSON.parse(decoder.decode(data)))
    if (!parsed.success) throw new Error('a beat of a replica has a wrong form')
    const { revision_id, replica, graphs } = parsed.data
    // The broker lets a pool write its own name only.
    if (subject !== beat(token('pool', poolOf(revision_id))))
      throw new Error('a beat names the revision of another pool')
    const known = revisions.get(revision_id) ?? new Map<string, Heard>()
    if (known.size >= MAX_REPLICAS && !known.has(replica)) throw new Error('a revision has beats of too many replicas')
    revisions.set(revision_id, known.set(replica, { at: performance.now(), graphs }))
    for (const onBeat of listeners.get(revision_id) ?? []) onBeat()
  })
  const sweep = setInterval(() => {
    for (const [revision_id, replicas] of revisions) {
      for (const [replica, { at }] of replicas) if (isSilent(at)) replicas.delete(replica)
      if (replicas.size === 0) revisions.delete(revision_id)
    }
  }, SILENT_MS).unref()
  const isSilent = (at: number) => at + SILENT_MS < performance.now()
  return {
    graphsOf(revision_id, replica) {
      const heard = revisions.get(revision_id)?.get(replica)
      return heard === undefined || isSilent(heard.at) ? null : heard.graphs
    },
    forget: (revision_id, replica) => void revisions.get(revision_id)?.delete(replica),
    on(revision_id, onBeat) {
      const set = listeners.get(revision_id) ?? new Set()
      listeners.set(revision_id, set.add(onBeat))
      return () => {
        set.delete(onBeat)
        if (set.size === 0) listeners.delete(revision_id)
      }
    },
    close() {
      clearInterval(sweep)
      subscription.unsubscribe()
    },
  }
}
