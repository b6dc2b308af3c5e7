/** The data folder: keys, passwords and all threads are in it. */
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { UserError } from './user-error.js'

/**
 * Makes the folder, open to its owner only, with a .gitignore that excludes everything in it: the default is a folder in
 * the project. A folder that exists already may have other users, so it only gets the .gitignore when it
 * has the default name.
 */
export function prepareDataFolder(data: string): void {
  const folder = resolve(data)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new UserError(`--data: ${folder} is a file; expected a folder`, 2)
  const created = mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined
  if (!created && basename(folder) !== '.weft') return
  try {
    writeFileSync(join(folder, '.gitignore'), '*\n', { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** False for a file, and for a folder that holds something. */
export function isNewOrEmpty(folder: string): boolean {
  const found = statSync(folder, { throwIfNoEntry: false })
  return found === undefined || (found.isDirectory() && readdirSync(folder).length === 0)
}
