/**
 * Folders of built files that the edge serves: the console and the guide. They contain nothing of this server, so they
 * need no key. Their pages load nothing from elsewhere and have no inline script or style.
 */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Exchange } from './http/exchange.js'
import type { Headers } from './http/received.js'

export interface BuiltFile {
  bytes: Uint8Array
  /** Compressed when somebody asks for it: all files at once took 1.7 s. Null: not worth it. */
  gzip: (() => Promise<Uint8Array>) | null
  type: string
}

export interface BuiltFolder {
  /** The files by name; rejects while there are none. */
  files(): Promise<ReadonlyMap<string, BuiltFile>>
}

const TYPES: { readonly [extension: string]: string } = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.md': 'text/markdown; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}
const COMPRESSED = new Set(Object.keys(TYPES).filter(extension => extension !== '.woff2'))

/** For every page, and what it loads. */
export const PAGE_HEADERS: Headers = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

/** `folder` is read when somebody asks; after a failure the next request reads it again. */
export function openFolder(folder: string): BuiltFolder {
  let files: Promise<ReadonlyMap<string, BuiltFile>> | null = null
  return {
    files() {
      files ??= readFiles(folder).catch(error => {
        files = null
        throw error
      })
      return files
    },
  }
}

async function readFiles(folder: string): Promise<ReadonlyMap<string, BuiltFile>> {
  const names = (await readdir(folder)).filter(name => Object.hasOwn(TYPES, extname(name)))
  const entries = names.map(async (name): Promise<[string, BuiltFile]> => {
    const bytes = await readFile(join(folder, name))
    const extension = extname(name)
    return [name, { bytes, gzip: COMPRESSED.has(extension) ? once(bytes) : null, type: TYPES[extension]! }]
  })
  return new Map(await Promise.all(entries))
}

function once(bytes: Uint8Array): () => Promise<Uint8Array> {
  let packed: Promise<Uint8Array> | undefined
  return () => (packed ??= promisify(gzip)(bytes, { level: 9 }))
}

/** A page changes with the version of Weft; the name of another file changes with its content. */
export const FRESH = 'no-cache'
export const FOREVER = 'public, max-age=31536000, immutable'

export async function replyFile(exchange: Exchange, { bytes, gzip, type }: BuiltFile, cache: string): Promise<void> {
  const packed = exchange.received.acceptsGzip && gzip !== null ? await gzip() : null
  exchange.reply(200, packed ?? bytes, {
    ...PAGE_HEADERS,
    'Content-Type': type,
    'Cache-Control': cache,
    ...(gzip === null ? {} : { Vary: 'Accept-Encoding' }),
    ...(packed === null ? {} : { 'Content-Encoding': 'gzip' }),
  })
}
