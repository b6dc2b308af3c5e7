/** The thread of extract.ts: extracts what it was started for, sends it, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Extraction, extract } from './extract.js'
import type { Extracted } from './schema-cache.js'

/** The input of the thread. */
export interface Work {
  extractions: readonly Extraction[]
  /** The file of the compiler: the bundle of this thread loads it (scripts/build-programs.mjs). */
  compiler: string
}

const all = (workerData as Work).extractions.map(extract)
const extracted: Extracted = {
  found: Object.assign({}, ...all.map(({ found }) => found)),
  files: [...new Set(all.flatMap(({ files }) => files))],
}
parentPort!.postMessage(extracted)
