/** Starts the replicas of a revision from an artefact on this machine's disk. */
import { join } from 'node:path'
import type { PoolUser } from '../../../schemas/deploy-calls.js'
import { openRedactor } from '../../../schemas/redact.js'
import { natsUrlOf } from '../nats-url.js'
import type { Artefacts } from './artefacts.js'
import { openCgroups } from './cgroups.js'
import { hostEnv, inheritedEnv } from './environment.js'
import type { ProcessOptions } from './options.js'
import type { Records } from './records.js'
import { type Replicas, startReplicas } from './replicas.js'
import type { Size } from './size.js'

export interface RevisionToStart {
  deployment_id: string
  slug: string
  revision_id: string
  pool: string
  generation: number
  artefact: string
  env: { [name: string]: string }
  pool_user: PoolUser | null
  size: Size
}

/** Resolves to null when the artefact is not on this disk. */
export type Start = (revision: RevisionToStart) => Promise<Replicas | null>

export function openStart(options: ProcessOptions, artefacts: Artefacts, records: Records): Start {
  const { folder, config, ours, log } = options
  const cgroups = openCgroups(config.cgroup, folder)
  if ('reason' in cgroups)
    log[config.cgroup === '' ? 'info' : 'warn'](
      { reason: cgroups.reason },
      'replicas are limited by the memory of their hosts, not by cgroups',
    )
  else log.info({ folder: cgroups.folder }, 'replicas are limited by cgroups: processor, memory and processes')

  return async ({ deployment_id, slug, revision_id, pool, artefact, env, pool_user, size }) => {
    const found = await artefacts.find(artefact)
    if (found === null) return null
    await records.add(deployment_id, { revision_id, pool, artefact })
    return startReplicas({
      count: size.replicas,
      start: {
        config: {
          ...config,
          app: join(found.tree, found.note.config),
          app_id: deployment_id,
          pool,
          hosts: size.hosts,
          host_memory_mb: size.memory_mb,
          // All runs of a scaled deployment are counted in its queue.
          hand_over: config.hand_over && !size.isScaled,
          // The environment of the artefact, and no other.
          python: '',
          // Shorter than our own deadline, so that unfinished runs are handed back and not lost.
          stop_ms: Math.floor(config.stop_ms / 2),
        },
        nats_url: natsUrlOf(options.nats_url, pool_user),
        revision_id,
        tree: found.tree,
        env: hostEnv(options, { deployment_id, slug, revision_id }, env),
      },
      env: inheritedEnv(ours),
      redactor: openRedactor(Object.values(env)),
      log,
      say: options.logOf({ deployment_id, revision_id }).of('runtime'),
      confine(pid) {
        if ('reason' in cgroups) return () => {}
        try {
          return cgroups.confine(pid, size.limits)
        } catch (error) {
          log.error({ err: error, revision_id }, 'a replica could not be put into a cgroup: it runs without its limits')
          return () => {}
        }
      },
      onExited: () => options.figures.count('weft_replica_exits_total'),
    })
  }
}
