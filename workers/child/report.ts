/** The report of a small program with user code: JSON that it writes to a pipe, which it then closes. */
import { jsonFault } from '../../schemas/json.js'

/** Rejects unless what was written, at most `most` bytes, is JSON within the limits of a body of a client. */
export async function readReport(stream: NodeJS.ReadableStream, most: number): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of stream as AsyncIterable<Buffer>) {
    size += part.length
    // The rest is read and dropped: the program must not wait.
    if (size <= most) parts.push(part)
  }
  if (size > most) throw new RangeError(`a report is larger than ${most} bytes`)
  const bytes = Buffer.concat(parts)
  const fault = jsonFault(bytes)
  if (fault !== null) throw new RangeError(fault)
  return JSON.parse(bytes.toString())
}
