/** Measures the time of GET /ok repeatedly in a separate thread, which other work of this process does not delay. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

const EVERY_MS = 20

/** `stop` resolves to the milliseconds of each call. */
export function watchHealth(url: string): { stop(): Promise<number[]> } {
  const thread = new Worker(new URL(import.meta.url), { workerData: { health: url } })
  return {
    stop: () =>
      new Promise((done, failed) => {
        thread.once('error', failed)
        thread.once('message', done)
        thread.postMessage('stop')
      }),
  }
}

async function measure(url: string): Promise<void> {
  const call = () => fetch(`${url}/ok`).then(answer => answer.arrayBuffer())
  // The first one loads the client.
  await call()
  const times: number[] = []
  let on = true
  parentPort!.once('message', () => {
    on = false
  })
  for (; on; await sleep(EVERY_MS)) {
    const since = performance.now()
    await call()
    times.push(performance.now() - since)
  }
  parentPort!.postMessage(times)
}

if (!isMainThread && workerData?.health !== undefined) await measure(workerData.health)
