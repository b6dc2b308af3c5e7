/**
 * Applications on the versions of LangGraph that Weft serves: each folder of test/lines has its own installed library.
 * An application is copied below it, so that its imports find that library.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'

export interface LibraryLine {
  /** `LangGraph 0.2.20` */
  name: string
  version: string
  /** `createAgent` of the package `langchain` is there. */
  agents: boolean
  /** The library has the mode `tools`. */
  tools: boolean
  /** A folder with a copy of the test application; `remove` deletes it. */
  app(name: string): { path: string; remove(): void }
}

const folder = join(root, 'test/lines')

const lineOf = (line: string, more: Pick<LibraryLine, 'agents' | 'tools'>): LibraryLine => {
  const at = join(folder, line)
  const { version } = JSON.parse(readFileSync(join(at, 'node_modules/@langchain/langgraph/package.json'), 'utf8')) as {
    version: string
  }
  return {
    ...more,
    name: `LangGraph ${version}`,
    version,
    app(name) {
      const copies = join(at, '.apps')
      mkdirSync(copies, { recursive: true })
      const copy = mkdtempSync(join(copies, `${name}-`))
      cpSync(join(root, 'test/apps', name), copy, { recursive: true })
      return { path: join(copy, 'langgraph.json'), remove: () => rmSync(copy, { recursive: true, force: true }) }
    },
  }
}

/** The oldest, the last before the library changed the namespaces of its chunks, the newest. */
export const libraryLines: readonly LibraryLine[] = [
  lineOf('0.2', { agents: false, tools: false }),
  lineOf('1.5', { agents: true, tools: true }),
  lineOf('1.7', { agents: true, tools: true }),
]
