/** Secrets that are made once and stored in a file of the data folder, readable by its owner only. */
import { chmodSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'

/** The text of the file, which the first caller makes. */
export function readOrCreateSecret(path: string, make: () => string): string {
  const known = read(path)
  if (known !== null) return known
  const draft = `${path}.${process.pid}`
  rmSync(draft, { force: true })
  writeFileSync(draft, `${make()}\n`, { mode: 0o600, flag: 'wx' })
  try {
    // A link does not replace a file: of two processes at the same time, both use the first file.
    linkSync(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  return read(path)!
}

function read(path: string): string | null {
  try {
    const text = readFileSync(path, 'utf8').trim()
    if (text === '') throw new Error(`${path} is empty: put the key back, or remove the file to have a new one made`)
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600)
    return text
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
