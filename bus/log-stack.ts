/**
 * Stacks in logs name the source, not the bundle that was executed (dist/programs/). The map beside a bundle is read when
 * the first error from it is logged: reading it at the start would cost each process what the bundle saves.
 */
import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the package: this file is two folders below it in dist/, and the bundle has its URL. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** A place in a bundle: its path, line and column. */
const PLACE = /(?:file:\/\/)?([^\s()]*\/dist\/programs\/[\w.-]+\.js):(\d+):(\d+)/g

const maps = new Map<string, SourceMap | null>()

/** The same text with the places of the sources, relative to the package. A place without a map stays. */
export function sourceStack(stack: string): string {
  return stack.replace(PLACE, (place, file: string, line: string, column: string) => {
    const found = mapOf(file)?.findEntry(Number(line) - 1, Number(column) - 1)
    if (found === undefined || !('originalSource' in found)) return place
    const path = relative(ROOT, join(dirname(file), found.originalSource))
    return `${path}:${found.originalLine + 1}:${found.originalColumn + 1}`
  })
}

function mapOf(file: string): SourceMap | null {
  let map = maps.get(file)
  if (map === undefined) {
    try {
      map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')))
    } catch {
      map = null
    }
    maps.set(file, map)
  }
  return map
}
