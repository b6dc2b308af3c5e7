/** The versions of Weft and of its own copy of LangGraph, read from package.json. */
import { readFileSync } from 'node:fs'

import { type Build, PROTOCOL } from '../schemas/protocol.js'

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

/** The description of this process for others. `protocol`: another one than its own, in tests; 0: its own. */
export const buildOf = (protocol = 0): Build => ({ version: readManifest().version, protocol: protocol || PROTOCOL })
