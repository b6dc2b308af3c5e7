/** Reads the application's langgraph.json for a build (docs/spec/control-plane.md#process-driver). */
import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { readAppConfig } from '../../../schemas/application.js'
import { type Language, readDescription, usesPython } from '../../../schemas/description.js'
import type { PythonNeeds } from '../../child/python-install.js'
import { Fault } from '../fault.js'

export interface Description {
  /** Path of the description, relative to the tree. */
  file: string
  /** Its absolute folder, in which `build_command` runs. */
  folder: string
  graphs: string[]
  /** The languages of its graphs. */
  languages: Language[]
  /** Its settings for Python; null when no part of it is Python. */
  python: PythonNeeds | null
}

const NAMES = ['langgraph.json', 'graph.json']

/** Reads the description at `path` in the tree. Throws a Fault with one sentence: missing, outside the tree, invalid. */
export async function describe(tree: string, path: string): Promise<Description> {
  const root = await realpath(tree)
  const found = await locate(root, path)
  const file = relative(root, found)
  const text = await readFile(found, 'utf8')
  try {
    // Files that it names are read by a host only, as another user.
    const source = { path: file, env: {}, read: (path: string) => (path === file ? text : null) }
    const { graphs } = readAppConfig(source)
    const bad = graphs.find(graph => graph.error !== null)
    if (bad !== undefined) throw new Error(`${file}: ${bad.error}`)
    const { given } = readDescription(source)
    const folder = dirname(found)
    return {
      file,
      folder,
      graphs: graphs.map(({ graph_id }) => graph_id),
      languages: [...new Set(graphs.map(({ language }) => language))].sort(),
      python: usesPython({ graphs, given }) ? { folder, given } : null,
    }
  } catch (error) {
    throw new Fault(`config: ${(error as Error).message}`)
  }
}

/** Follows symlinks within the tree only. */
async function locate(root: string, path: string): Promise<string> {
  if (path.startsWith('/') || path.split(/[/\\]/).includes('..'))
    throw new Fault(`config: graph_config_path must stay within the repository, not "${path}"`)
  const given = join(root, path)
  const folder = await stat(given).then(
    found => found.isDirectory(),
    () => false,
  )
  for (const candidate of folder ? NAMES.map(name => join(given, name)) : [given]) {
    const real = await realpath(candidate).catch(() => null)
    if (real === null) continue
    if (!real.startsWith(`${root}/`)) throw new Fault(`config: ${path} leads out of the repository`)
    return real
  }
  throw new Fault(`config: the commit has no ${folder ? `${NAMES.join(' or ')} in ${path}` : path}`)
}
