/**
 * Records of the revisions that were started on this machine, with pools and artefacts: one file per deployment. After
 * a restart they name the revisions to clean up and the artefacts in use: those of the last four revisions (the active
 * one, two before it, and one that is being deployed).
 */
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { removeDrafts, writeDurably } from './artefacts.js'

interface RevisionRecord {
  revision_id: string
  pool: string
  artefact: string
  /** It was drained and its pool removed. */
  retired?: boolean
}

export interface Records {
  add(deployment_id: string, record: RevisionRecord): Promise<void>
  markRetired(deployment_id: string, revision_id: string): Promise<void>
  list(deployment_id: string): Promise<RevisionRecord[]>
  /** Revisions that were started here and not retired. */
  listUnretired(): Promise<(RevisionRecord & { deployment_id: string })[]>
  listArtefacts(): Promise<Set<string>>
  forget(deployment_id: string): Promise<void>
}

const MAX_RETIRED = 4
const FILE = /^([0-9a-f-]{36})\.json$/

export async function openRecords(folder: string): Promise<Records> {
  await mkdir(folder, { recursive: true })
  await removeDrafts(folder)
  const records = new Map<string, RevisionRecord[]>()
  for (const name of await readdir(folder)) {
    const id = FILE.exec(name)?.[1]
    if (id !== undefined) records.set(id, JSON.parse(await readFile(join(folder, name), 'utf8')) as RevisionRecord[])
  }

  /** The last write of each file: writes of one file follow each other, so that the last one has the last word. */
  const writes = new Map<string, Promise<void>>()

  function enqueue(deployment_id: string, write: () => Promise<void>): Promise<void> {
    const done = (writes.get(deployment_id) ?? Promise.resolve()).then(write, write)
    writes.set(deployment_id, done)
    const release = () => void (writes.get(deployment_id) === done && writes.delete(deployment_id))
    done.then(release, release)
    return done
  }

  function write(deployment_id: string, list: RevisionRecord[]): Promise<void> {
    records.set(deployment_id, list)
    const text = `${JSON.stringify(list)}\n`
    return enqueue(deployment_id, () => writeDurably(join(folder, `${deployment_id}.json`), text))
  }

  const listOf = (deployment_id: string) => records.get(deployment_id) ?? []
  return {
    async add(deployment_id, record) {
      const others = listOf(deployment_id).filter(one => one.revision_id !== record.revision_id)
      // All unretired revisions stay: their pools must still be removed.
      const retired = others.filter(one => one.retired)
      const forgotten = new Set(retired.slice(0, Math.max(0, retired.length - MAX_RETIRED + 1)))
      await write(deployment_id, [...others.filter(one => !forgotten.has(one)), record])
    },
    async markRetired(deployment_id, revision_id) {
      if (!records.has(deployment_id)) return
      await write(
        deployment_id,
        listOf(deployment_id).map(one => (one.revision_id === revision_id ? { ...one, retired: true } : one)),
      )
    },
    list: async deployment_id => [...listOf(deployment_id)],
    listUnretired: async () =>
      [...records].flatMap(([deployment_id, list]) =>
        list.filter(one => !one.retired).map(one => ({ ...one, deployment_id })),
      ),
    listArtefacts: async () => new Set([...records.values()].flat().map(one => one.artefact)),
    async forget(deployment_id) {
      records.delete(deployment_id)
      await enqueue(deployment_id, () => rm(join(folder, `${deployment_id}.json`), { force: true }))
    },
  }
}
