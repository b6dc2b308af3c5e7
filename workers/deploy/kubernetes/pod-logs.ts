/** The output of pods as lines of the runtime log of their revision, without its secrets. */
import { PassThrough } from 'node:stream'
import type { Redactor } from '../../../schemas/redact.js'
import type { Say } from '../log.js'
import { lines, parseLogLine } from '../output-lines.js'
import type { Cluster } from './cluster.js'

export interface PodLogs {
  /** Follows these pods of the revision; those that are followed already go on. */
  follow(revision_id: string, namespace: string, pods: readonly string[], to: { redactor(): Redactor; say: Say }): void
  close(): void
}

/** Output that cannot be read is no failure of the pod: it is tried again with the next call. */
export function openPodLogs(cluster: Cluster): PodLogs {
  const followed = new Map<string, () => void>()
  let isOpen = true

  async function followOne(key: string, namespace: string, pod: string, redactor: Redactor, say: Say): Promise<void> {
    const out = new PassThrough()
    const flush = lines(out, redactor, text => say(...parseLogLine(text)))
    out.once('close', () => {
      flush()
      followed.delete(key)
    })
    out.on('error', () => {})
    const stop = await cluster.follow(namespace, pod, out)
    if (isOpen) followed.set(key, stop)
    else stop()
  }

  return {
    follow(revision_id, namespace, pods, { redactor, say }) {
      for (const pod of pods) {
        const key = `${revision_id} ${pod}`
        if (!isOpen || followed.has(key)) continue
        followed.set(key, () => {})
        followOne(key, namespace, pod, redactor(), say).catch(() => followed.delete(key))
      }
    },
    close() {
      isOpen = false
      for (const stop of followed.values()) stop()
    },
  }
}
