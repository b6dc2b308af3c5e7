/**
 * The schemas from the types of an application, on disk: reading them takes seconds, and most starts find the same files. A stored
 * answer is valid while every file that the compiler has read is unchanged. One file for each application.
 */
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, sep } from 'node:path'
import type { Extraction, TypeSchemas } from './extract.js'

export type ByGraph = { [graph_id: string]: TypeSchemas }

export interface Extracted {
  found: ByGraph
  /** Absolute paths of what the compiler has read. */
  files: string[]
}

interface Stored {
  found: ByGraph
  prints: { [file: string]: string }
}

export interface SchemaCache {
  read(): ByGraph | null
  write(extracted: Extracted): void
}

/** `env`: the variables of the process. */
export const schemaFolder = (env: { readonly [name: string]: string | undefined }): string =>
  join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft', 'schemas')
const PACKAGES = `${sep}node_modules${sep}`

/** `program`: the file that extracts; another one may give other answers. */
export function openSchemaCache(extractions: readonly Extraction[], program: string, folder: string): SchemaCache {
  const path = join(folder, `${hashOf(JSON.stringify(extractions))}.json`)
  return {
    read() {
      try {
        const { found, prints } = JSON.parse(readFileSync(path, 'utf8')) as Stored
        return Object.entries(prints).every(([file, print]) => printOf(file) === print) ? found : null
      } catch {
        return null
      }
    },
    write({ found, files }) {
      const temporary = `${path}.${randomUUID()}`
      try {
        const prints = Object.fromEntries([program, ...files].map(file => [file, printOf(file)]))
        mkdirSync(folder, { recursive: true, mode: 0o700 })
        writeFileSync(temporary, JSON.stringify({ found, prints } satisfies Stored))
        renameSync(temporary, path)
      } catch {
        // Without a place for it the types are read at each start.
        rmSync(temporary, { force: true })
      }
    },
  }
}

/** Files of packages change with their installation only: reading hundreds of them would take as long as a start. */
function printOf(file: string): string {
  if (!file.includes(PACKAGES)) return hashOf(readFileSync(file))
  const { size, mtimeMs } = statSync(file)
  return `${size} ${mtimeMs}`
}

const hashOf = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex')
