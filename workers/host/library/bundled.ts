/**
 * Weft's own copy of LangGraph and of what it needs, as one file (scripts/bundle-library.mjs, decision 065). It takes the
 * place of the installed files for whoever imports these: there must be one copy of them.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** Written with the bundle: the versions of its packages, and the modules that others may import, by their entry file. */
interface Table {
  packages: { [name: string]: { version: string; modules: { [file: string]: string } } }
}

const FOLDER = fileURLToPath(new URL('../../../programs/library/', import.meta.url))
const ours = createRequire(import.meta.url)

/**
 * URLs of modules of the bundle in `folder`, by the URL of the installed file that they replace. Empty when the installed
 * packages are not those that were bundled.
 */
export function bundledModules(folder = FOLDER): ReadonlyMap<string, string> {
  const modules = new Map<string, string>()
  try {
    const { packages } = JSON.parse(readFileSync(join(folder, 'table.json'), 'utf8')) as Table
    for (const [name, bundled] of Object.entries(packages)) {
      const found = packageAt(ours.resolve(name), name)
      if (found?.manifest.version !== bundled.version) return new Map()
      for (const [file, module] of Object.entries(bundled.modules))
        modules.set(pathToFileURL(join(found.folder, file)).href, pathToFileURL(join(folder, module)).href)
    }
    return modules
  } catch {
    return new Map()
  }
}

export interface Manifest {
  name?: string
  version?: string
  exports?: { [path: string]: { import?: string | { default?: string } } }
}

/** Returns the package with this name that contains the given file. */
export function packageAt(file: string, name: string): { folder: string; manifest: Manifest } | null {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    try {
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
      if (manifest.name === name) return { folder, manifest }
    } catch {}
  }
  return null
}
