/**
 * Forwards stdout and stderr of a child process with user code to ours, up to 1 MB/s per child: code that logs without
 * end costs the reading, never the disk or the memory of the parent. The number of dropped bytes is logged.
 */
import type { ChildProcess } from 'node:child_process'
import type { Writable } from 'node:stream'

const OUTPUT_BYTES = 1024 * 1024
const WINDOW_MS = 1_000
/** The reader of our own output is slow: nothing is buffered for it beyond this. */
const MAX_BUFFERED = 8 * 1024 * 1024
const TAIL = 4_096

/** Forwards the output of the child, which is named `name`; `tail` is the end of its stderr, dropped or not. */
export function forwardOutput(
  { pid, stdout, stderr }: ChildProcess,
  name: string,
  { out, err } = ownOutput,
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

  stdout?.on('data', (data: Buffer) => forward(data, out))
  stderr?.on('data', (data: Buffer) => {
    tail = (tail + data.subarray(-TAIL).toString('latin1')).slice(-TAIL)
    forward(data, err)
  })
  return { tail: () => tail }
}

/** Whether the last such line of a command's output says why it failed: uv ends with a hint, after the reason. */
export const isReason = (line: string): boolean => line.trim() !== '' && !/^\s*hint:/.test(line)

const ownOutput = { out: process.stdout as Writable, err: process.stderr as Writable }
