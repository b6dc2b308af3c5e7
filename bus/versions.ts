/** The versions of Weft and of its own copy of LangGraph, read from package.json. */
import { readFileSync } from 'node:fs'

export interface Versions {
  weft: string
  langgraph: string
}

export function readVersions(): Versions {
  const { version, dependencies } = readManifest()
  return { weft: version, langgraph: dependencies['@langchain/langgraph'] ?? '' }
}

/** The part of Weft's package.json that programs use. */
export function readManifest(): { version: string; dependencies: { [name: string]: string } } {
  // Two folders up from the compiled file.
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
}
