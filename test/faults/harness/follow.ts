/**
 * A client that follows a run to its end: it joins, joins again with its last id when the connection breaks, and keeps what
 * it has received. What must be true of every stream is checked in `wrongStream` (row 35).
 */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Followed {
  ids: number[]
  /** Data of the last event `values`. */
  values: { done?: number[] } | null
  /** Data of the last event `error`. */
  error: unknown
  /** Custom events as `step:i`. */
  custom: Set<string>
  /**
   * `open`: it still waits. `ended`: the server ended the body. `refused`: 409 or 404, events are no longer kept.
   */
  state: 'open' | 'ended' | 'refused'
  /** Status and text of the refusal. */
  refusal: string
  /** Connections that broke and were replaced. */
  broken: number
  /** Milliseconds from the first attempt to join again after each break to the first byte. */
  resumed: number[]
  /** Comment lines, such as heartbeats. */
  comments: number
}

export interface Follower {
  seen: Followed
  ended: Promise<void>
  /** Gives up. */
  stop(): void
}

const PAUSE_MS = 100

/** Follows from the first event. `urlOf` names the server for each connection. */
export function followRun(urlOf: () => string, path: string, after = -1): Follower {
  const seen: Followed = {
    ids: [],
    values: null,
    error: undefined,
    custom: new Set(),
    state: 'open',
    refusal: '',
    broken: 0,
    resumed: [],
    comments: 0,
  }
  const stop = new AbortController()
  let last = after
  let isBroken = false
  /** When the first attempt after a break began; null: there was none. */
  let againAt: number | null = null

  const read = async (): Promise<void> => {
    if (isBroken) againAt ??= performance.now()
    const answer = await fetch(urlOf() + path, { headers: { 'last-event-id': `${last}` }, signal: stop.signal })
    if (answer.status !== 200) {
      seen.refusal = `after ${last}: ${answer.status} ${await answer.text()}`
      if (answer.status === 409 || answer.status === 404) seen.state = 'refused'
      return
    }
    const decoder = new TextDecoder()
    let rest = ''
    for await (const bytes of answer.body!) {
      if (isBroken) seen.resumed.push(performance.now() - againAt!)
      isBroken = false
      // The last part is a frame that has not arrived whole.
      const frames = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split('\n\n')
      rest = frames.pop()!
      for (const frame of frames) last = note(seen, frame) ?? last
    }
    seen.state = 'ended'
  }

  const ended = (async () => {
    while (seen.state === 'open' && !stop.signal.aborted) {
      await read().catch(() => {
        if (isBroken) return
        isBroken = true
        againAt = null
        seen.broken++
      })
      if (seen.state === 'open') await sleep(PAUSE_MS)
    }
  })()
  return { seen, ended, stop: () => stop.abort() }
}

/** Takes a frame; returns its id. */
function note(seen: Followed, frame: string): number | null {
  const fields: { [name: string]: string } = {}
  for (const line of frame.split('\n'))
    if (line.startsWith(':')) seen.comments++
    else fields[line.slice(0, line.indexOf(':'))] = line.slice(line.indexOf(':') + 2)
  if (fields.id === undefined) return null
  const data = JSON.parse(fields.data ?? 'null')
  if (fields.event === 'values') seen.values = data
  else if (fields.event === 'error') seen.error = data
  else if (fields.event === 'custom') seen.custom.add(`${data.step}:${data.i}`)
  seen.ids.push(Number(fields.id))
  return Number(fields.id)
}

/** The defect of the stream of a run that has ended with this status; null: none. */
export function wrongStream(seen: Followed, status: string, steps: number): string | null {
  const { ids, state, values, error } = seen
  if (state === 'open') return `is still open after the end of its run (${status})`
  const back = ids.findIndex((id, i) => i > 0 && id <= ids[i - 1]!)
  if (back !== -1) return `has id ${ids[back]} after ${ids[back - 1]}`
  if (state === 'refused') return null
  if (status === 'success' && values?.done?.length !== steps)
    return `ended after ${values?.done?.length ?? 0} of ${steps} steps, as if it were complete`
  if ((status === 'error' || status === 'timeout') && error === undefined) return `ended without the event "error"`
  return null
}
