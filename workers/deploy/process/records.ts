/**
 * What this machine has of deployments, in a file each: which revisions were started here, with their pools and
 * artefacts. Says after a restart what is left over, and which artefacts are still wanted: those of the last four
 * revisions that ran (the active one, two before it, and one on its way).
 */
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeDurably } from './artefacts.js'

export interface Ran {
  revision_id: string
  pool: string
  artefact: string
  /** Drained, and its pool removed. */
  retired?: boolean
}

export interface Records {
  note(deployment_id: string, ran: Ran): Promise<void>
  retired(deployment_id: string, revision_id: string): Promise<void>
  of(deployment_id: string): Promise<Ran[]>
  /** Revisions that ran here and were not retired. */
  earlier(): Promise<(Ran & { deployment_id: string })[]>
  artefacts(): Promise<Set<string>>
  forget(deployment_id: string): Promise<void>
}

const KEPT = 4
const FILE = /^([0-9a-f-]{36})\.json$/

export async function openRecords(folder: string): Promise<Records> {
  await mkdir(folder, { recursive: true })
  const known = new Map<string, Ran[]>()
  for (const name of await readdir(folder)) {
    const id = FILE.exec(name)?.[1]
    if (id !== undefined) known.set(id, JSON.parse(await readFile(join(folder, name), 'utf8')) as Ran[])
  }

  async function write(deployment_id: string, ran: Ran[]): Promise<void> {
    known.set(deployment_id, ran)
    await writeDurably(join(folder, `${deployment_id}.json`), `${JSON.stringify(ran)}\n`)
  }

  const of = (deployment_id: string) => known.get(deployment_id) ?? []
  return {
    async note(deployment_id, ran) {
      const others = of(deployment_id).filter(one => one.revision_id !== ran.revision_id)
      // Those that are not retired are kept however many: somebody has to remove their pools.
      const gone = others.filter(one => one.retired)
      const kept = new Set([...others.filter(one => !one.retired), ...gone.slice(Math.max(0, gone.length - KEPT + 1))])
      await write(deployment_id, [...others.filter(one => kept.has(one)), ran])
    },
    async retired(deployment_id, revision_id) {
      if (!known.has(deployment_id)) return
      await write(
        deployment_id,
        of(deployment_id).map(one => (one.revision_id === revision_id ? { ...one, retired: true } : one)),
      )
    },
    of: async deployment_id => [...of(deployment_id)],
    earlier: async () =>
      [...known].flatMap(([deployment_id, ran]) =>
        ran.filter(one => !one.retired).map(one => ({ ...one, deployment_id })),
      ),
    artefacts: async () => new Set([...known.values()].flat().map(one => one.artefact)),
    async forget(deployment_id) {
      known.delete(deployment_id)
      await rm(join(folder, `${deployment_id}.json`), { force: true })
    },
  }
}
