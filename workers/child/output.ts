/**
 * Forwards stdout and stderr of a child process with user code to ours, up to 1 MB/s per child: code that logs without
 * end costs the reading, never the disk or the memory of the parent. The number of dropped bytes is logged.
 */
import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { openLineMaker } from './output-lines.js'
import { openMarkReader } from './output-marks.js'

const OUTPUT_BYTES = 1024 * 1024
const WINDOW_MS = 1_000
/** The reader of our own output is slow: nothing is buffered for it beyond this. */
const MAX_BUFFERED = 8 * 1024 * 1024
const TAIL = 4_096

/** A line that a child wrote. */
export interface OutputLine {
  stream: 'stdout' | 'stderr'
  /** The slot of its run; 0: of none, or not known. */
  slot: number
  text: string
}

interface Destinations {
  out?: Writable
  err?: Writable
  /** Gets each line that is not dropped. */
  onLine?: ((line: OutputLine) => void) | undefined
}

/** Forwards the output of the child, which is named `name`; `tail` is the end of its stderr, dropped or not. */
export function forwardOutput(
  { pid, stdout, stderr }: ChildProcess,
  name: string,
  { out = process.stdout, err = process.stderr, onLine }: Destinations = {},
): { tail(): string } {
  let room = OUTPUT_BYTES
  let dropped = 0
  let refilling = false
  let tail = ''

  function refill(): void {
    refilling = false
    room = OUTPUT_BYTES
    if (dropped === 0) return
    err.write(`\n[${name} ${pid}: ${dropped} bytes of output dropped, the limit is ${OUTPUT_BYTES} bytes per second]\n`)
    dropped = 0
  }

  function forward(data: Buffer, to: Writable): void {
    if (!refilling) setTimeout(refill, WINDOW_MS)
    refilling = true
    const taken = to.writableLength > MAX_BUFFERED ? 0 : Math.min(room, data.length)
    room -= taken
    dropped += data.length - taken
    if (taken > 0) to.write(taken === data.length ? data : data.subarray(0, taken))
  }

  function follow(stream: OutputLine['stream'], from: Readable | null, to: Writable): void {
    const lines = openLineMaker((slot, text) => onLine?.({ stream, slot, text }))
    const marks = openMarkReader((slot, text) => {
      if (room > 0) lines.add(slot, text)
    })
    const take = (data: Buffer) => {
      if (stream === 'stderr') tail = (tail + data.subarray(-TAIL).toString('latin1')).slice(-TAIL)
      if (data.length > 0) forward(data, to)
    }
    from?.on('data', (data: Buffer) => take(marks.read(data)))
    from?.once('end', () => {
      take(marks.end())
      lines.end()
    })
  }

  follow('stdout', stdout, out)
  follow('stderr', stderr, err)
  return { tail: () => tail }
}

/** Whether the last such line of a command's output says why it failed: uv ends with a hint, after the reason. */
export const isReason = (line: string): boolean => line.trim() !== '' && !/^\s*hint:/.test(line)
