/** Makes lines of output. A line is of one slot; a part of a line, before output of another slot, is a line. */
import { StringDecoder } from 'node:string_decoder'

/** Characters of a line; what is longer becomes several lines. */
const LONGEST = 4_096

export interface LineMaker {
  add(slot: number, data: Buffer): void
  /** There is no more output: the rest is a line. */
  end(): void
}

export function openLineMaker(onLine: (slot: number, text: string) => void): LineMaker {
  let decoder = new StringDecoder('utf8')
  let slot = 0
  let rest = ''

  function give(text: string): void {
    for (let from = 0; from === 0 || from < text.length; from += LONGEST) onLine(slot, text.slice(from, from + LONGEST))
  }

  function end(): void {
    rest += decoder.end()
    if (rest !== '') give(rest)
    rest = ''
  }

  return {
    add(next, data) {
      if (next !== slot) {
        end()
        decoder = new StringDecoder('utf8')
        slot = next
      }
      const text = rest + decoder.write(data)
      let from = 0
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
        give(text.slice(from, at > from && text[at - 1] === '\r' ? at - 1 : at))
        from = at + 1
      }
      rest = text.slice(from)
      if (rest.length > LONGEST) end()
    },
    end,
  }
}
