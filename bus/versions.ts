/** The versions of Weft and of its own copy of LangGraph, read from package.json. */
import { readFileSync } from 'node:fs'

export interface Versions {
  weft: string
  langgraph: string
}

export function readVersions(): Versions {
  // Two folders up from the compiled file.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const { version, dependencies } = JSON.parse(text) as { version: string; dependencies: { [name: string]: string } }
  return { weft: version, langgraph: dependencies['@langchain/langgraph'] ?? '' }
}
