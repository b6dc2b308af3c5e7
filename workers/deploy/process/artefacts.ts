/**
 * The artefact store: finished read-only trees, named by the hash of all their inputs. A tree is renamed into place and
 * its note is written last, so a tree whose note has the right checksum is complete after any crash.
 */
import { hash, randomUUID } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import PQueue from 'p-queue'
import type { HostUser } from '../../child/process.js'
import { erase, ForeignFile, keepReadOnly } from '../../child/user-tree.js'
import { Fault } from '../fault.js'
import { hashOf } from './fetch.js'

/** Inputs of a build; two builds with equal inputs are the same artefact. */
interface Ingredients {
  /** A build may be led by what an earlier one has left in the HOME of its deployment. */
  deployment_id: string
  /** The commit, or the hash of a folder without git. */
  content: string
  repo: string
  config: string
  install_command: string | null
  build_command: string | null
  /** Versions and platform of native modules. */
  runtime: string
}

/** Description of an artefact, stored beside its tree. */
export interface Note {
  key: string
  /** Path of the description within the tree. */
  config: string
  checksum: string
  made_at: number
}

export interface Artefacts {
  /** The tree of a complete artefact; null when it is missing or damaged. */
  find(key: string): Promise<{ tree: string; note: Note } | null>
  /** Moves a finished tree into the store, unless the artefact exists. */
  keep(key: string, tree: string, config: string): Promise<void>
  /** Removes artefacts that are not `used`, and neither made nor found within `min_age_ms`; resolves to their keys. */
  collect(used: ReadonlySet<string>, min_age_ms: number): Promise<string[]>
}

export const keyOf = (ingredients: Ingredients): string => {
  const { deployment_id, content, repo, config, install_command, build_command, runtime } = ingredients
  const text = JSON.stringify([deployment_id, content, repo, config, install_command, build_command, runtime])
  return hash('sha256', text)
}

const KEY = /^[0-9a-f]{64}$/
const NOTE = 'artefact.json'
const DRAFT = '.new'

/** `builder`: the user who makes the trees; our own when null. */
export async function openArtefacts(folder: string, builder: HostUser | null = null): Promise<Artefacts> {
  await mkdir(folder, { recursive: true })
  const at = (key: string) => {
    if (!KEY.test(key)) throw new RangeError('an artefact key is 64 hex digits')
    return join(folder, key)
  }
  /** Checked once per process: hashing a large tree takes seconds, and it is read-only. */
  const checked = new Set<string>()
  /** Time of the last `find`: a found artefact is about to be used. */
  const foundAt = new Map<string, number>()

  async function noteOf(key: string): Promise<Note | null> {
    try {
      return JSON.parse(await readFile(join(at(key), NOTE), 'utf8')) as Note
    } catch {
      return null
    }
  }

  async function find(key: string) {
    foundAt.set(key, Date.now())
    const note = await noteOf(key)
    if (note === null) return null
    const tree = join(at(key), 'tree')
    if (!checked.has(key)) {
      const checksum = await hashOf(tree, Number.POSITIVE_INFINITY).catch(() => null)
      if (checksum !== note.checksum) return null
      checked.add(key)
    }
    return { tree, note }
  }

  /** Two builds of the same artefact may end at the same time. */
  const keeping = new PQueue({ concurrency: 1 })

  async function keep(key: string, tree: string, config: string): Promise<void> {
    if ((await find(key)) !== null) return
    const place = at(key)
    await erase(place)
    await mkdir(place)
    await chmod(place, 0o755)
    const kept = join(place, 'tree')
    await rename(tree, kept)
    await keepReadOnly(kept, builder).catch(error => {
      throw error instanceof ForeignFile ? new Fault(`build: ${error.message}`) : error
    })
    const checksum = await hashOf(kept, Number.POSITIVE_INFINITY)
    const note: Note = { key, config, checksum, made_at: Date.now() }
    await writeDurably(join(place, NOTE), `${JSON.stringify(note)}\n`)
    checked.add(key)
  }

  return {
    find,
    keep: (key, tree, config) => keeping.add(() => keep(key, tree, config)),
    async collect(used, min_age_ms) {
      const removed: string[] = []
      for (const key of await readdir(folder)) {
        if (!KEY.test(key) || used.has(key)) continue
        const made = (await noteOf(key))?.made_at ?? (await lstat(at(key))).mtimeMs
        if (Math.max(made, foundAt.get(key) ?? 0) > Date.now() - min_age_ms) continue
        foundAt.delete(key)
        checked.delete(key)
        await erase(at(key))
        removed.push(key)
      }
      return removed
    },
  }
}

/**
 * Replaces the file: after a power failure it holds the new or the old text. Drafts have unique names, so that two
 * writes at once do not take each other's; a crash may leave one, which `removeDrafts` removes.
 */
export async function writeDurably(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}${DRAFT}`
  await writeFile(draft, text, { flush: true })
  await rename(draft, path)
  const parent = await open(dirname(path))
  try {
    await parent.sync()
  } finally {
    await parent.close()
  }
}

/** Removes the drafts that a crash has left in this folder. */
export async function removeDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name.endsWith(DRAFT)) await rm(join(folder, name), { force: true })
}
