/** A database thread that ends as soon as it is asked something: with an error, or without a word. */
import { parentPort, workerData } from 'node:worker_threads'

parentPort!.on('message', () => {
  if (workerData === 'exit') process.exit(0)
  throw new Error('out of luck')
})
parentPort!.postMessage({ started: null })
