/**
 * Files of an application as the user of its hosts reads them (WEFT_HOST_USER): that user may have made any of them a link to
 * a file that only we can read, or a pipe without an end.
 */
import { execFile } from 'node:child_process'
import { readFile, realpath, stat } from 'node:fs/promises'
import type { AppSource } from '../../schemas/description.js'
import { isBelow } from './paths.js'
import { asideBare, type HostUser } from './process.js'

const MAX_BYTES = 32 * 1024 ** 2
const READ_MS = 10_000

/**
 * The text of a file, at most 32 MB; null when the user cannot read it. With a `tree`, also null for what is no file in it:
 * links of an application in a sandbox must not lead out of it. Nothing of the application may run meanwhile.
 */
export async function readAs(user: HostUser | null, path: string, tree?: string): Promise<string | null> {
  if (tree !== undefined && !(await isFileIn(tree, path))) return null
  if (user === null) return readFile(path, 'utf8').catch(() => null)
  const options = { ...asideBare(user), maxBuffer: MAX_BYTES + 1, timeout: READ_MS, killSignal: 'SIGKILL' } as const
  return new Promise(resolve =>
    execFile('head', ['-c', `${MAX_BYTES}`, '--', path], options, (error, text) =>
      resolve(error === null ? text : null),
    ),
  )
}

async function isFileIn(tree: string, path: string): Promise<boolean> {
  try {
    const real = await realpath(path)
    const found = await stat(real)
    return isBelow(real, await realpath(tree)) && found.isFile() && found.size <= MAX_BYTES
  } catch {
    return false
  }
}

/**
 * The `read` of an AppSource, for code that cannot wait: with another user or a `tree`, the texts of the files that `use`
 * asks for are read once, as `readAs` does. `use` runs until it has asked for all of them, and may throw.
 */
export async function readerFor(
  user: HostUser | null,
  use: (read: AppSource['read']) => unknown,
  tree?: string,
): Promise<AppSource['read'] | undefined> {
  if (user === null && tree === undefined) return undefined
  const texts = new Map<string, string | null>()
  for (;;) {
    const missing = new Set<string>()
    const read = (path: string): string | null => {
      if (!texts.has(path)) missing.add(path)
      return texts.get(path) ?? null
    }
    try {
      use(read)
    } catch {
      // It is not complete yet, or wrong: then whoever reads it next reports that.
    }
    if (missing.size === 0) return read
    for (const path of missing) texts.set(path, await readAs(user, path, tree))
  }
}
