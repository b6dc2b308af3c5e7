/** Looks for secrets in bytes: as text, as base64, and as UTF-16. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** Every file below, with any name. */
export function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) yield join(entry.parentPath, entry.name)
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64').replace(/=+$/, '')

const formsOf = (text: string): Buffer[] => [
  Buffer.from(text),
  // At any position in a longer text: without the characters that depend on its neighbours.
  ...[0, 1, 2].map(shift => Buffer.from(base64('x'.repeat(shift) + text).slice(4, -4))),
  Buffer.from(text, 'utf16le'),
]

/** Whether these bytes contain the text in one of the encodings. */
export function holds(bytes: Uint8Array, text: string): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return formsOf(text).some(form => buffer.includes(form))
}
