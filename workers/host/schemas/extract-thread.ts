/** The thread of extract.ts: extracts what it was started for, sends it, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Extraction, extract } from './extract.js'

parentPort!.postMessage((workerData as Extraction[]).map(extract))
