/** A client that works while a cluster changes. */
import type { Proc } from './cluster.js'
import { until } from './until.js'

/** Makes threads and runs one after another at the edge that serves now, and keeps what was answered. For test/apps/basic. */
export function openClient(edgeOf: () => Proc) {
  const threads: string[] = []
  const failures: string[] = []
  let isOver = false
  const post = async (path: string, body: object) => {
    const url = `http://127.0.0.1:${edgeOf().port}${path}`
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text.slice(0, 300)}`)
    return JSON.parse(text) as { thread_id: string; n?: number }
  }
  const ended = (async () => {
    while (!isOver)
      try {
        const { thread_id } = await post('/threads', {})
        await post(`/threads/${thread_id}/runs/wait`, { assistant_id: 'counter', input: { steps: 2 } })
        threads.push(thread_id)
      } catch (error) {
        failures.push((error as Error).message)
      }
  })()
  return {
    threads,
    failures,
    /** Resolves when a few more runs have ended. */
    more: () => {
      const enough = threads.length + 3
      return until(async () => threads.length >= enough, 60_000)
    },
    async stop() {
      isOver = true
      await ended
    },
  }
}
