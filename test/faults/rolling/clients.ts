/** Clients of one address that send what applications send, and count each request that was not answered as it should be. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Tally {
  /** Requests that were sent, those that join a stream again too. */
  requests: number
  /** Why each request failed that was not answered 2xx. */
  failed: string[]
  /** Milliseconds that the slowest request took; a stream until it began. */
  slowest: number
  /** Requests that took longer than SLOW_MS. */
  slow: string[]
  /** Streams that were cut and joined again. */
  resumed: number
}

export interface Clients {
  tally: Tally
  /** Runs that were accepted, and must end as success. */
  runs: { thread_id: string; run_id: string }[]
  /** Starts callers that send one request after the other until `stop`. */
  call(callers: number): void
  /** A stream of `chunks` from its beginning to its end, joined again each time that it is cut. For test/apps/basic. */
  stream(options: StreamOptions): Promise<StreamRead>
  stop(): Promise<void>
}

interface StreamOptions {
  count: number
  delay_ms: number
  onBegun?: () => void
}

interface StreamRead {
  ids: number[]
  /** The numbers of the chunks. */
  chunks: number[]
  cuts: number
}

const PAUSE_MS = 50
/** A worker that is silent for so long is not asked again. */
const SLOW_MS = 4_000
const MOST_CUTS = 20
const headers = { 'content-type': 'application/json' }

export function openClients(url: string): Clients {
  const tally: Tally = { requests: 0, failed: [], slowest: 0, slow: [], resumed: 0 }
  const runs: Clients['runs'] = []
  const callers: Promise<void>[] = []
  let on = true

  /** Resolves with an answer of 2xx; throws the failure that it has counted. */
  async function send<T>(
    method: string,
    path: string,
    options: { body?: object; headers?: object },
    read: (answer: Response) => T | Promise<T>,
  ): Promise<T> {
    const { body } = options
    const since = performance.now()
    tally.requests++
    try {
      const answer = await fetch(url + path, {
        method,
        headers: { ...headers, ...options.headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).slice(0, 200)}`)
      return await read(answer)
    } catch (error) {
      const { message, cause } = error as Error
      const ms = Math.round(performance.now() - since)
      tally.failed.push(`${method} ${path} after ${ms} ms: ${message} ${cause ?? ''}`.trim())
      throw error
    } finally {
      const ms = performance.now() - since
      tally.slowest = Math.max(tally.slowest, ms)
      if (ms > SLOW_MS) tally.slow.push(`${method} ${path} took ${(ms / 1_000).toFixed(1)} s`)
    }
  }
  const json = <T>(method: string, path: string, body?: object) =>
    send(method, path, body === undefined ? {} : { body }, answer => answer.json() as Promise<T>)

  const input = { assistant_id: 'slow', input: { ms: 100 } }
  async function journey(): Promise<void> {
    const { thread_id } = await json<{ thread_id: string }>('POST', '/threads', {})
    runs.push(await json('POST', `/threads/${thread_id}/runs`, input))
    await json('GET', `/threads/${thread_id}`)
    await json('POST', '/runs/wait', input)
  }

  return {
    tally,
    runs,
    call(count) {
      for (let i = 0; i < count; i++)
        callers.push(
          (async () => {
            while (on) {
              await journey().catch(() => {})
              await sleep(PAUSE_MS)
            }
          })(),
        )
    },
    async stream({ count, delay_ms, onBegun }) {
      const body = {
        assistant_id: 'chunks',
        input: { count, delay_ms },
        stream_mode: 'custom',
        stream_resumable: true,
        on_disconnect: 'continue',
      }
      const whole = (answer: Response) => answer
      let answer = await send('POST', '/runs/stream', { body }, whole)
      const location = answer.headers.get('location')!
      onBegun?.()
      const read: StreamRead = { ids: [], chunks: [], cuts: 0 }
      while (!(await readFrames(answer, read))) {
        if (++read.cuts > MOST_CUTS) throw new Error(`the stream was cut ${MOST_CUTS} times`)
        answer = await send('GET', location, { headers: { 'last-event-id': `${read.ids.at(-1) ?? -1}` } }, whole)
        tally.resumed++
      }
      return read
    },
    async stop() {
      on = false
      await Promise.all(callers)
    },
  }
}

/** Adds the events of an answer; false when it was cut. */
async function readFrames(answer: Response, read: StreamRead): Promise<boolean> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const bytes of answer.body!) {
      // The last part is a frame that has not arrived whole.
      const frames = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split('\n\n')
      rest = frames.pop()!
      for (const frame of frames) {
        const id = /^id: (\d+)/m.exec(frame)?.[1]
        if (id !== undefined) read.ids.push(Number(id))
        const chunk = /^data: \{"i":(\d+)/m.exec(frame)?.[1]
        if (chunk !== undefined) read.chunks.push(Number(chunk))
      }
    }
    return true
  } catch {
    return false
  }
}
