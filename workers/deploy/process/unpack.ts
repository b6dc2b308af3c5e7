/**
 * Unpacks an uploaded tar archive, compressed by gzip, into an empty folder. The archive is not trusted: it holds files and
 * folders only, no links, with paths below the folder; bytes and entries are counted while they arrive. As nothing in the
 * folder is a link, no path leads out of it.
 */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Parser, type ReadEntry } from 'tar'
import { Fault, Stopped, throwIfStopped } from '../fault.js'

interface Limits {
  /** The size of the archive without its compression. */
  bytes: number
  entries: number
}

const FILES: ReadonlySet<string> = new Set(['File', 'OldFile', 'ContiguousFile'])
const MAX_PATH = 1_024
const MAX_DEPTH = 64
/** The parser would uncompress once more what begins like this, and no limit counts that. */
const COMPRESSED = [Buffer.from([0x1f, 0x8b]), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])]

/** Throws a Fault, or what `archive` throws. Files are written synchronously: at most 64 KiB at a time. */
export async function unpack(
  archive: AsyncIterable<Uint8Array>,
  tree: string,
  limits: Limits,
  signal: AbortSignal,
): Promise<{ files: number; bytes: number }> {
  let sourceError: unknown = null
  async function* source() {
    try {
      yield* archive
    } catch (error) {
      sourceError = error
      throw error
    }
  }
  const writer = openWriter(tree, limits)
  try {
    await pipeline(source, createGunzip(), async chunks => {
      for await (const chunk of chunks as AsyncIterable<Buffer>) {
        throwIfStopped(signal)
        writer.write(chunk)
      }
    })
    return writer.end()
  } catch (error) {
    if (sourceError !== null) throw sourceError
    if (error instanceof Fault || error instanceof Stopped) throw error
    const { code = '', message } = error as NodeJS.ErrnoException
    if (code.startsWith('Z_')) throw new Fault(`fetch: the upload is no complete gzip archive: ${message}`)
    throw error
  } finally {
    writer.close()
  }
}

function openWriter(tree: string, limits: Limits) {
  let bytes = 0
  let entries = 0
  let files = 0
  let failure: Error | null = null
  let file: number | null = null

  const parser = new Parser({ strict: true, maxDecompressionRatio: Number.POSITIVE_INFINITY })
  const failed = (error: Error) => {
    failure ??= error instanceof Fault ? error : new Fault(`fetch: the upload is no tar archive: ${error.message}`)
  }
  parser.on('error', failed)
  parser.on('ignoredEntry', ({ path }: ReadEntry) => failed(refused(path, 'is of a kind that is not known')))
  parser.on('entry', (entry: ReadEntry) => {
    try {
      receive(entry)
    } catch (error) {
      failure ??= error as Error
    }
    // A refused entry is read, too: the parser waits for the end of each entry.
    entry.resume()
  })

  function receive(entry: ReadEntry): void {
    if (failure !== null) return
    if (++entries > limits.entries)
      throw new Fault(`fetch: the upload holds more than ${limits.entries} files and folders`)
    const parts = partsOf(entry.path)
    if (entry.type !== 'Directory' && !FILES.has(entry.type))
      throw refused(entry.path, 'is neither a file nor a folder; links are not taken')
    // The history of a repository is no part of the application.
    if (parts.includes('.git') || parts.length === 0) return
    const path = join(tree, ...parts)
    atPath(entry.path, () => {
      mkdirSync(entry.type === 'Directory' ? path : dirname(path), { recursive: true })
      if (entry.type === 'Directory') return
      file = openSync(path, 'w', ((entry.mode ?? 0) & 0o100) === 0 ? 0o644 : 0o755)
    })
    if (file === null) return
    files++
    entry.on('data', (data: Buffer) => {
      try {
        if (file !== null && failure === null) for (let at = 0; at < data.length; ) at += writeSync(file, data, at)
      } catch (error) {
        failure ??= error as Error
      }
    })
    entry.on('end', close)
  }

  function close(): void {
    if (file !== null) closeSync(file)
    file = null
  }

  return {
    write(chunk: Buffer): void {
      if (bytes === 0 && COMPRESSED.some(begin => chunk.subarray(0, begin.length).equals(begin)))
        throw new Fault('fetch: the upload is compressed twice; expected a tar archive, compressed by gzip')
      bytes += chunk.length
      if (bytes > limits.bytes) throw new Fault(`fetch: the upload unpacks to more than ${limits.bytes} bytes`)
      parser.write(chunk)
      if (failure !== null) throw failure
    },
    end(): { files: number; bytes: number } {
      parser.end()
      if (failure !== null) throw failure
      return { files, bytes }
    },
    close,
  }
}

/** The segments of a path, without "." and empty ones. Throws a Fault when it leads elsewhere. */
function partsOf(path: string): string[] {
  if (/[\x00-\x1f\x7f]/.test(path)) throw refused(path, 'has control characters')
  if (path.startsWith('/')) throw refused(path, 'is absolute')
  if (Buffer.byteLength(path) > MAX_PATH) throw refused(path, `is longer than ${MAX_PATH} bytes`)
  const parts = path.split('/').filter(part => part !== '' && part !== '.')
  if (parts.includes('..')) throw refused(path, 'leads out of the archive')
  if (parts.length > MAX_DEPTH) throw refused(path, `has more than ${MAX_DEPTH} folders`)
  return parts
}

const refused = (path: string, why: string): Fault =>
  new Fault(`fetch: the upload holds ${JSON.stringify(path.slice(0, 100))}, which ${why}`)

/** Errors that the names in the archive cause, not the disk. */
const OF_NAMES: ReadonlySet<string> = new Set(['EISDIR', 'ENOTDIR', 'EEXIST', 'ENAMETOOLONG', 'EILSEQ'])

function atPath(path: string, work: () => void): void {
  try {
    work()
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw OF_NAMES.has(code) ? refused(path, `cannot be written (${code})`) : error
  }
}
