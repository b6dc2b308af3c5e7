/**
 * Hosts mark the output of a run: ESC _w<slot> ESC \ before a text, the same with slot 0 after it. Terminals ignore such a
 * sequence. Here the marks are taken out, so that the output is what the application wrote. Text without a mark, as of a
 * child process of a graph, is of no slot.
 */
const BEGIN = Buffer.from('\u001b_w')
const END = Buffer.from('\u001b\\')
const ESC = 0x1b
const SLOT = /^\d{1,10}$/
/** With the digits of a slot. */
const MAX_MARK = BEGIN.length + 10 + END.length
const NOTHING = Buffer.alloc(0)

export interface MarkReader {
  /** The data without marks. A mark that is cut off waits for the rest of it. */
  read(data: Buffer): Buffer
  /** The bytes that still wait. */
  end(): Buffer
}

/** `onText` gets each part of the data, with its slot; 0: of none. */
export function openMarkReader(onText: (slot: number, text: Buffer) => void): MarkReader {
  let slot = 0
  let held: Buffer = NOTHING

  function give(text: Buffer, parts: Buffer[]): void {
    if (text.length === 0) return
    parts.push(text)
    onText(slot, text)
  }

  return {
    read(received) {
      if (held.length === 0 && !received.includes(ESC)) {
        onText(slot, received)
        return received
      }
      const data = held.length === 0 ? received : Buffer.concat([held, received])
      const parts: Buffer[] = []
      held = NOTHING
      let from = 0
      while (from < data.length) {
        const at = data.indexOf(ESC, from)
        give(data.subarray(from, at < 0 ? data.length : at), parts)
        if (at < 0) break
        const mark = data.subarray(at, at + MAX_MARK)
        const end = mark.indexOf(END)
        const digits = end < 0 ? '' : mark.subarray(BEGIN.length, end).toString('latin1')
        if (end > 0 && startsAs(mark) && SLOT.test(digits)) {
          slot = Number(digits)
          from = at + end + END.length
        } else if (end <= 0 && startsAs(mark) && mark.length < MAX_MARK) {
          held = Buffer.from(mark)
          break
        } else {
          give(data.subarray(at, at + 1), parts)
          from = at + 1
        }
      }
      return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
    },
    end() {
      const rest = held
      held = NOTHING
      if (rest.length > 0) onText(slot, rest)
      return rest
    },
  }
}

/** The bytes are the begin of a mark, as far as they go. */
function startsAs(bytes: Buffer): boolean {
  const length = Math.min(bytes.length, BEGIN.length)
  return bytes.subarray(0, length).equals(BEGIN.subarray(0, length))
}
