/** Parses server-sent events from the bytes of a response, at a few hundred nanoseconds each. */
import { StringDecoder } from 'node:string_decoder'
import { check, shown } from './wrong.js'

/** `id` is null when the event has none; its data lines are joined by line feeds. */
export type OnEvent = (event: string, data: string, id: string | null) => void

export interface SseReader {
  data(piece: Buffer): void
  /** Throws a Wrong when the stream ended inside an event. */
  end(): void
}

export function sseReader(onEvent: OnEvent): SseReader {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  return {
    data(piece) {
      let text = rest + decoder.write(piece)
      let half = ''
      if (text.includes('\r')) {
        if (text.endsWith('\r')) half = '\r'
        text = text.slice(0, text.length - half.length).replaceAll('\r\n', '\n')
      }
      let from = 0
      for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n', from)) {
        read(text, from, end, onEvent)
        from = end + 2
      }
      rest = text.slice(from) + half
    },
    end() {
      check(rest.trim() === '' || rest.startsWith(':'), () => `the stream ended inside an event: ${shown(rest)}`)
    },
  }
}

const COLON = 58

function read(text: string, from: number, end: number, onEvent: OnEvent): void {
  let id: string | null = null
  let event = ''
  let data: string | null = null
  while (from < end) {
    let stop = text.indexOf('\n', from)
    if (stop === -1 || stop > end) stop = end
    if (text.charCodeAt(from) !== COLON) {
      if (text.startsWith('data:', from)) {
        const line = text.slice(valueFrom(text, from + 5), stop)
        data = data === null ? line : `${data}\n${line}`
      } else if (text.startsWith('id:', from)) id = text.slice(valueFrom(text, from + 3), stop)
      else if (text.startsWith('event:', from)) event = text.slice(valueFrom(text, from + 6), stop)
    }
    from = stop + 1
  }
  if (event !== '' || data !== null) onEvent(event, data ?? '', id)
}

const SPACE = 32
const valueFrom = (text: string, at: number): number => (text.charCodeAt(at) === SPACE ? at + 1 : at)
