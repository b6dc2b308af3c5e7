/** The image of containers that have the programs of this machine: it is nearly empty, and they are mounted read-only. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from '../../../cli/root.js'

const node = realpathSync(process.execPath)

/** Each container has the programs, this repository and the applications where they are here. */
export const mountedFolders = (apps: readonly string[]): string[] => [
  ...new Set(['/usr', dirname(dirname(node)), root, ...apps]),
]

/** Writes an archive of the root folder. `folder`: for its files. */
export function writeRoot(folder: string): string {
  const content = join(folder, 'image')
  mkdirSync(content)
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(content, name))
  for (const name of ['usr', 'etc', 'tmp', 'root']) mkdirSync(join(content, name))
  const archive = `${content}.tar`
  execFileSync('tar', ['--create', `--file=${archive}`, `--directory=${content}`, '.'])
  return archive
}

export const ENTRYPOINT = [node, join(root, 'dist/cli/weft.js')]
/** The environment of a container that serves the application. */
export const envOf = (app: string): string[] => [`WEFT_APP=${app}`, 'PATH=/usr/bin:/bin']
