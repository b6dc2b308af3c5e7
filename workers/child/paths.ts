/** Absolute paths, as lists of what a sandbox shows. */
import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, resolve, sep } from 'node:path'

export const isBelow = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === sep ? sep : `${folder}${sep}`)

/** Without paths that another path contains. */
export function outermost(paths: readonly string[]): string[] {
  const all = [...new Set(paths)].sort()
  return all.filter(path => !all.some(other => other !== path && isBelow(path, other)))
}

/** The folders of an interpreter: `<prefix>/bin/python`, where it is a link also those of the file that it leads to. */
export function prefixesOf(command: string): string[] {
  if (!command.includes(sep) || !existsSync(command)) return []
  const folders = [resolve(command), realpathSync(command)].map(file => dirname(file))
  return folders.map(each => (basename(each) === 'bin' ? dirname(each) : each)).filter(each => each !== sep)
}
