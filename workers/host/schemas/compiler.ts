/**
 * The TypeScript compiler that reads the types of graphs. Few applications need it, so it is no part of an installation:
 * the first one downloads it into the cache of the user of hosts. A clone and an image have it.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { cacheFolder, fetchPackage, pinned } from '../../npm-package.js'

const ours = createRequire(import.meta.url)
const PLACES = ['typescript-json-schema/node_modules/typescript/package.json', 'typescript/package.json']

/** The file of the compiler. Throws one sentence when there is none and it cannot be downloaded. */
export async function findCompiler(env: NodeJS.ProcessEnv, log: (line: string) => void): Promise<string> {
  const { typescript: pin } = pinned
  const installed = PLACES.map(installedAt).find(one => one?.version === pin.version)
  const folder = join(cacheFolder(env), `${pin.name}-${pin.version}`)
  const what = 'the TypeScript compiler, which reads the types of graphs'
  return join(installed?.folder ?? (await fetchPackage({ pin, folder, env, log, what })), 'lib/typescript.js')
}

function installedAt(place: string): { folder: string; version: string } | null {
  try {
    const file = ours.resolve(place)
    return { folder: dirname(file), version: JSON.parse(readFileSync(file, 'utf8')).version }
  } catch {
    return null
  }
}
