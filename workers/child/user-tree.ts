/**
 * Trees that another user owns (WEFT_HOST_USER): builds, their homes, sockets of applications. A process of that user can
 * exchange a folder for a link at any moment, so root follows no path through a folder that the user can change. Each
 * function takes a folder from the user before it looks into it: from then on the entries of this folder stay what they
 * are. The tree that is given must lie in a folder that the user cannot change. All of Weft changes owners and removes
 * trees here only (scripts/checks/imports.ts).
 */
import { randomUUID } from 'node:crypto'
import type { Stats } from 'node:fs'
import { chmod, lchown, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { HostUser } from './process.js'

/** Longer paths are avoided: systems refuse those of 4096 bytes (Linux) and 1024 bytes (macOS). */
const MAX_PATH = 800

/** Removes whatever is at the path, also read-only folders. A missing one is not an error. */
export async function erase(path: string): Promise<void> {
  const folders = [path]
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    if (!(await takeFolder(folder))) continue
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue
      let inner = join(folder, entry.name)
      if (inner.length > MAX_PATH) {
        const short = join(path, randomUUID())
        await rename(inner, short)
        inner = short
      }
      folders.push(inner)
    }
  }
  await rm(path, { recursive: true, force: true })
}

/** Makes the folder ours alone. False when it is none. */
async function takeFolder(path: string): Promise<boolean> {
  try {
    const found = await lstat(path)
    if (!found.isDirectory()) return false
    await take(path, found)
    await chmod(path, 0o700)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

async function take(path: string, { uid }: Stats): Promise<void> {
  const own = process.getuid?.() ?? uid
  if (uid !== own) await lchown(path, own, process.getgid!())
}

/** A tree holds a file of somebody else: a second name of it, which its owner has not given. */
export class ForeignFile extends Error {}

/**
 * Makes a tree ours and read-only, for everybody who can enter its folder; links are not followed. `from`: the user who made
 * it, null for ourselves. Throws a ForeignFile for a file that is not theirs, and when the path is no folder.
 */
export async function keepReadOnly(path: string, from: HostUser | null): Promise<void> {
  if (!(await lstat(path)).isDirectory()) throw new ForeignFile(`${path} is no folder`)
  await keepOne(path, from)
}

async function keepOne(path: string, from: HostUser | null): Promise<void> {
  const found = await lstat(path)
  if (from !== null && found.uid !== from.uid) throw new ForeignFile(`${path} does not belong to ${from.name}`)
  await take(path, found)
  if (found.isSymbolicLink()) return
  const readable = found.mode | ((found.mode & 0o500) >> 3) | ((found.mode & 0o500) >> 6)
  await chmod(path, readable & 0o555)
  if (found.isDirectory()) for (const name of await readdir(path)) await keepOne(join(path, name), from)
}

/**
 * Makes the user the owner of a whole tree that we have made, in a folder that only we can enter: nobody else is in the
 * tree meanwhile.
 */
export async function give(user: HostUser, path: string): Promise<void> {
  const parent = dirname(path)
  if (((await lstat(parent)).mode & 0o077) !== 0)
    throw new Error(`${parent} must be closed to others while ${path} is given to ${user.name}`)
  await giveOne(user, path)
}

async function giveOne(user: HostUser, path: string): Promise<void> {
  const found = await lstat(path)
  if (found.isDirectory()) for (const name of await readdir(path)) await giveOne(user, join(path, name))
  await lchown(path, user.uid, user.gid)
}

/** Younger ones may have no owner yet. */
const LEFT_MS = 60_000

/**
 * Removes the folders of ours with this prefix that processes have left in `parent`: nobody has written in them lately, and
 * `isOwned` is false for them.
 */
export async function removeLeftovers(
  parent: string,
  prefix: string,
  isOwned: (folder: string) => Promise<boolean> = async () => false,
): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(prefix)) continue
    const folder = join(parent, name)
    const found = await lstat(folder).catch(() => null)
    if (found === null || !found.isDirectory() || found.uid !== process.getuid?.()) continue
    if (found.mtimeMs > Date.now() - LEFT_MS || (await isOwned(folder))) continue
    await erase(folder).catch(() => {})
  }
}

/** Makes a folder of the user's own, unless it exists: one that belongs to somebody else is replaced by an empty one. */
export async function makeFor(user: HostUser, path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found?.isDirectory() && found.uid === user.uid) return
  await erase(path)
  await mkdir(path, { mode: 0o700 })
  await lchown(path, user.uid, user.gid)
}
