/**
 * The artefact store: finished trees, read-only, named by everything that went into them. A tree is moved into place
 * in one step and its note is written last, so what has a note with the right checksum is complete, whatever crashed.
 */
import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hashOf } from './fetch.js'

/** What two builds must have in common to be the same artefact. */
export interface Ingredients {
  /** The commit, or the hash of a folder without git. */
  content: string
  repo: string
  config: string
  install_command: string | null
  build_command: string | null
  /** Versions and platform that native parts are built for. */
  runtime: string
}

/** What is known of an artefact. */
export interface Note {
  key: string
  /** Path of the description within the tree. */
  config: string
  checksum: string
  made_at: number
}

export interface Artefacts {
  /** The folder of a complete artefact; null when there is none, or it is damaged. */
  find(key: string): Promise<{ tree: string; note: Note } | null>
  /** Moves a finished tree in, unless the artefact is there already. */
  keep(key: string, tree: string, config: string): Promise<void>
  /** Removes what `used` does not name and is older than `min_age_ms`; resolves to what was removed. */
  collect(used: ReadonlySet<string>, min_age_ms: number): Promise<string[]>
}

export const keyOf = (ingredients: Ingredients): string => {
  const { content, repo, config, install_command, build_command, runtime } = ingredients
  const text = JSON.stringify([content, repo, config, install_command, build_command, runtime])
  return createHash('sha256').update(text).digest('hex')
}

const KEY = /^[0-9a-f]{64}$/
const NOTE = 'artefact.json'

export async function openArtefacts(folder: string): Promise<Artefacts> {
  await mkdir(folder, { recursive: true })
  const at = (key: string) => {
    if (!KEY.test(key)) throw new RangeError('an artefact key is 64 hex digits')
    return join(folder, key)
  }
  /** Checked once per process: hashing a large tree takes seconds, and it is read-only. */
  const checked = new Set<string>()

  async function noteOf(key: string): Promise<Note | null> {
    try {
      return JSON.parse(await readFile(join(at(key), NOTE), 'utf8')) as Note
    } catch {
      return null
    }
  }

  async function find(key: string) {
    const note = await noteOf(key)
    if (note === null) return null
    const tree = join(at(key), 'tree')
    if (!checked.has(key)) {
      const checksum = await hashOf(tree).catch(() => null)
      if (checksum !== note.checksum) return null
      checked.add(key)
    }
    return { tree, note }
  }

  return {
    find,
    async keep(key, tree, config) {
      if ((await find(key)) !== null) return
      const place = at(key)
      await erase(place)
      await mkdir(place)
      const checksum = await hashOf(tree)
      await setWritable(tree, false)
      // A folder that is moved must itself be writable: its link to the parent changes.
      await chmod(tree, 0o755)
      await rename(tree, join(place, 'tree'))
      await chmod(join(place, 'tree'), 0o555)
      const note: Note = { key, config, checksum, made_at: Date.now() }
      await writeDurably(join(place, NOTE), `${JSON.stringify(note)}\n`)
      checked.add(key)
    },
    async collect(used, min_age_ms) {
      const removed: string[] = []
      for (const key of await readdir(folder)) {
        if (!KEY.test(key) || used.has(key)) continue
        const made = (await noteOf(key))?.made_at ?? (await lstat(at(key))).mtimeMs
        if (made > Date.now() - min_age_ms) continue
        checked.delete(key)
        await erase(at(key))
        removed.push(key)
      }
      return removed
    },
  }
}

/** Removes a folder also when what is in it is read-only; never fails because it is not there. */
export async function erase(path: string): Promise<void> {
  await setWritable(path, true).catch(() => {})
  await rm(path, { recursive: true, force: true })
}

/** Write permission of everything below; links are left alone. */
async function setWritable(path: string, writable: boolean): Promise<void> {
  const found = await lstat(path)
  if (found.isSymbolicLink()) return
  const mode = writable ? found.mode | 0o200 : found.mode & ~0o222
  if (found.isDirectory()) {
    if (writable) await chmod(path, mode)
    for (const name of await readdir(path)) await setWritable(join(path, name), writable)
    if (!writable) await chmod(path, mode)
  } else if (!writable) await chmod(path, mode)
}

/** The whole text or the old one, also after the power failed. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const draft = `${path}.new`
  await writeFile(draft, text, { flush: true })
  await rename(draft, path)
  const parent = await open(dirname(path))
  try {
    await parent.sync()
  } finally {
    await parent.close()
  }
}
