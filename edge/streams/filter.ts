/**
 * A stream may ask for fewer modes than the run produces, or for some namespaces. Only then are event names looked at, in
 * the bytes: `messages-tuple` selects `messages`, `messages` selects `messages/…`; metadata and error pass.
 */
import { readList } from '../../schemas/query.js'
import type { StreamMode } from '../../schemas/runs.js'

export type EventFilter = (bytes: Uint8Array) => Uint8Array

const ALWAYS = ['metadata', 'error', 'feedback']
const NAME = '\nevent: '

/** Modes of the query; [] when absent. */
export const readModes = (query: URLSearchParams): string[] => readList(query, 'stream_mode')

/** Namespaces of the query, each as its segments joined by `|`; "" is the root graph. Null when absent. */
export function readNamespaces(query: URLSearchParams): ReadonlySet<string> | null {
  const namespaces = query.getAll('namespace')
  return namespaces.length === 0 ? null : new Set(namespaces)
}

/**
 * Null when the client wants everything the run produces. `wanted`: [] selects all modes. `namespaces`: exactly these graphs,
 * without the graphs that they start; null selects all.
 */
export function openFilter(
  wanted: readonly string[],
  produced: readonly StreamMode[],
  namespaces: ReadonlySet<string> | null = null,
): EventFilter | null {
  const isWhole = wanted.length === 0 || produced.every(mode => wanted.includes(mode))
  if (isWhole && namespaces === null) return null
  const names = new Set<string>()
  for (const mode of wanted)
    names.add(mode === 'messages-tuple' ? 'messages' : mode === 'messages' ? 'messages/' : mode)
  return bytes =>
    pick(bytes, name => {
      const base = baseOf(name)
      if (ALWAYS.includes(base)) return true
      return (isWhole || names.has(base)) && (namespaces === null || namespaces.has(namespaceOf(name)))
    })
}

/** Passes events of these names only. */
export const onlyEvents = (names: readonly string[]): EventFilter => {
  const wanted = new Set(names)
  return bytes => pick(bytes, name => wanted.has(name))
}

/** `messages/partial|ns` → `messages/`; `values|ns` → `values`. */
function baseOf(name: string): string {
  const bare = name.split('|', 1)[0]!
  return bare.startsWith('messages/') ? 'messages/' : bare
}

/** `values|a:1|b:2` → `a:1|b:2`; `values` → "". */
function namespaceOf(name: string): string {
  const at = name.indexOf('|')
  return at < 0 ? '' : name.slice(at + 1)
}

/** Keeps the events whose name passes; neighbours stay one piece. */
function pick(bytes: Uint8Array, passes: (name: string) => boolean): Uint8Array {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const pieces: Uint8Array[] = []
  let from = -1
  let at = 0
  while (at < view.length) {
    const found = view.indexOf('\n\n', at, 'latin1')
    const end = found < 0 ? view.length : found + 2
    if (passes(nameOf(view, at, end))) {
      if (from < 0) from = at
    } else if (from >= 0) {
      pieces.push(view.subarray(from, at))
      from = -1
    }
    at = end
  }
  if (from === 0) return bytes
  if (from > 0) pieces.push(view.subarray(from))
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}

function nameOf(view: Buffer, at: number, end: number): string {
  const start =
    view.toString('latin1', at, at + 7) === 'event: ' ? at + 7 : view.indexOf(NAME, at, 'latin1') + NAME.length
  if (start < at + 7 || start >= end) return ''
  const stop = view.indexOf(0x0a, start)
  return view.toString('utf8', start, stop < 0 ? end : stop)
}
