/**
 * The LangGraph versions of the built-in application, for `/info`: asked at the start, after a reconnect and when a resource
 * worker has started, which learns the version of this edge from the question; and taken from announcements of graph workers in between. `/info` answers at once and needs no worker.
 */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import { type Libraries, validateAnnounced } from '../schemas/announcements.js'
import { validateAppInfo } from '../schemas/calls.js'
import { WeftError } from '../schemas/errors.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import type { EdgeHello } from '../schemas/protocol.js'
import { event, rpc } from '../schemas/subjects.js'

const decoder = new TextDecoder()
const PAUSE_MS = 2_000

export interface Library {
  /** Null until it is known. */
  versions(): Libraries | null
  close(): void
}

/** `onRefused`: resource workers of a version too far away answer. */
export function openLibrary(link: Link, caller: Caller, onRefused: (error: WeftError) => void): Library {
  const closing = new AbortController()
  const hello = Buffer.from(JSON.stringify({ weft: link.build } satisfies EdgeHello))
  let versions: Libraries | null = null

  const announced = link.subscribe(event('graphs', 'announced'), ({ data }) => {
    const parsed = validateAnnounced(JSON.parse(decoder.decode(data)))
    if (parsed.success && parsed.data.app === BUILT_IN_APP) versions = parsed.data.libraries ?? versions
  })

  async function ask(): Promise<void> {
    const options = { pause: PAUSE_MS, signal: closing.signal }
    const { body } = await caller.askUntilAnswered(rpc('system', 'info'), { request_id: 'info' }, hello, options)
    const parsed = validateAppInfo(JSON.parse(decoder.decode(body)))
    if (parsed.success) versions = parsed.data.libraries ?? versions
  }
  const refresh = () =>
    void ask().catch(error => {
      if (error instanceof WeftError && error.code === 'incompatible') onRefused(error)
      else if (!closing.signal.aborted) link.log.warn({ err: error }, 'the version of LangGraph could not be asked for')
    })
  refresh()
  const stopListening = link.onReconnect(refresh)
  const started = link.subscribe(event('resources', 'started'), refresh)

  return {
    versions: () => versions,
    close() {
      closing.abort()
      stopListening()
      announced.unsubscribe()
      started.unsubscribe()
    },
  }
}
