/** A plain reader of server-sent events that keeps every frame as received, for tests without an SDK. */
export interface Frame {
  id: number
  event: string
  data: string
}

export interface Reading {
  frames: Frame[]
  headers: Headers
  /** Comment lines, such as heartbeats. */
  comments: number
  /** The server ended the body, not `stopAfter`. */
  ended: boolean
}

export interface ReadOptions {
  method?: string
  body?: unknown
  headers?: { [name: string]: string }
  /** Drop the connection after this many frames. */
  stopAfter?: number
  /** The status and the headers of a stream have arrived. */
  onOpen?: () => void
  onFrame?: () => void
}

/** Reads a stream to its end or up to `stopAfter` frames. Throws an Error with status and body when it is not 200. */
export async function readStream(
  url: string,
  { method = 'GET', body, headers = {}, stopAfter = Infinity, onOpen, onFrame }: ReadOptions = {},
): Promise<Reading> {
  const connection = new AbortController()
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: connection.signal,
  })
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
  onOpen?.()
  const reading: Reading = { frames: [], headers: response.headers, comments: 0, ended: false }
  const decoder = new TextDecoder()
  let rest: string[] = []
  let frame: { [field: string]: string } = {}
  try {
    if (stopAfter === 0) throw new Error('stop')
    for await (const bytes of response.body!) {
      const text = decoder.decode(bytes as Uint8Array, { stream: true })
      rest.push(text)
      // A large frame is one line in many parts.
      if (!text.includes('\n')) continue
      const lines = rest.join('').split('\n')
      rest = [lines.pop()!]
      for (const line of lines) {
        if (line.startsWith(':')) reading.comments++
        else if (line !== '') frame[line.slice(0, line.indexOf(':'))] = line.slice(line.indexOf(':') + 2)
        else {
          reading.frames.push({ id: Number(frame.id), event: frame.event!, data: frame.data! })
          onFrame?.()
          frame = {}
          if (reading.frames.length >= stopAfter) throw new Error('stop')
        }
      }
    }
    reading.ended = true
  } catch (error) {
    if ((error as Error).message !== 'stop') throw error
    connection.abort()
  }
  return reading
}
