/** Reads one file out of a zip archive (a wheel is one): central directory, stored or deflated entries, no zip64. */
import { inflateRawSync } from 'node:zlib'

const END = 0x06054b50
const ENTRY = 0x02014b50
const END_SIZE = 22
const MAX_COMMENT = 0xffff

/** The bytes of the first entry that `wanted` accepts; throws an Error when no entry matches or the archive is broken. */
export function unzipOne(archive: Uint8Array, wanted: (name: string) => boolean): Uint8Array {
  const zip = Buffer.from(archive.buffer, archive.byteOffset, archive.length)
  let at = zip.length - END_SIZE
  while (at >= Math.max(0, zip.length - END_SIZE - MAX_COMMENT) && zip.readUInt32LE(at) !== END) at--
  if (at < 0 || zip.readUInt32LE(at) !== END) throw new Error('not a zip archive')
  let entry = zip.readUInt32LE(at + 16)
  for (let left = zip.readUInt16LE(at + 10); left > 0; left--) {
    if (zip.readUInt32LE(entry) !== ENTRY) throw new Error('the zip archive is broken')
    const method = zip.readUInt16LE(entry + 10)
    const packed = zip.readUInt32LE(entry + 20)
    const size = zip.readUInt32LE(entry + 24)
    const nameLength = zip.readUInt16LE(entry + 28)
    const name = zip.toString('utf8', entry + 46, entry + 46 + nameLength)
    const local = zip.readUInt32LE(entry + 42)
    entry += 46 + nameLength + zip.readUInt16LE(entry + 30) + zip.readUInt16LE(entry + 32)
    if (name.endsWith('/') || !wanted(name)) continue
    // The local header repeats the name, and its extra field may have another length than the directory's.
    const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    const bytes = zip.subarray(from, from + packed)
    if (method !== 0 && method !== 8)
      throw new Error(`${name} uses the compression method ${method}, which is not supported`)
    const out = method === 0 ? bytes : inflateRawSync(bytes)
    if (out.length !== size) throw new Error(`${name} has ${out.length} bytes instead of ${size}`)
    return out
  }
  throw new Error('the zip archive does not contain the file')
}
