/** The folder of Weft's package.json: the compiled files may be in any folder below it. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

function findRoot(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder
  const parent = dirname(folder)
  if (parent === folder) throw new Error('package.json of Weft was not found')
  return findRoot(parent)
}

export const root = findRoot(import.meta.dirname)
