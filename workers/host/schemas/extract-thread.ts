/** The thread of extract.ts: extracts what it was started for, sends it, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Extraction, extract } from './extract.js'
import type { Extracted } from './schema-cache.js'

const all = (workerData as Extraction[]).map(extract)
const extracted: Extracted = {
  found: Object.assign({}, ...all.map(({ found }) => found)),
  files: [...new Set(all.flatMap(({ files }) => files))],
}
parentPort!.postMessage(extracted)
