/**
 * `/console`: the files that the build made of console/. They contain nothing of this server, so they need no key; the
 * calls of the page carry the key that a person enters there. The page loads nothing from elsewhere and has no inline
 * script or style.
 */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { isLoopback } from '../schemas/loopback.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import type { Headers } from './http/received.js'

/** A file and, where that is worth it, its compressed bytes. */
export interface ConsoleFile {
  bytes: Uint8Array
  gzip: Uint8Array | null
  type: string
}
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>

const PAGE = 'index.html'
const TYPES: { readonly [extension: string]: string } = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}
const COMPRESSED = new Set(['.html', '.js', '.css', '.svg'])

const SECURITY: Headers = {
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
const OFF =
  'The console is off where other machines can reach a server without authentication: WEFT_REQUIRE_KEYS=1, or an "auth" in langgraph.json, turns it on'
const MISSING = 'The console is not built: run `npm run build`'

/** `folder`: the bundle. It is read when somebody asks; after a failure the next request reads it again. */
export function openConsole(folder = join(import.meta.dirname, '../console')): Edge['console'] {
  let files: Promise<ConsoleFiles> | null = null
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

async function readFiles(folder: string): Promise<ConsoleFiles> {
  const names = (await readdir(folder)).filter(name => Object.hasOwn(TYPES, extname(name)))
  const entries = names.map(async (name): Promise<[string, ConsoleFile]> => {
    const bytes = await readFile(join(folder, name))
    const extension = extname(name)
    const packed = COMPRESSED.has(extension) ? await promisify(gzip)(bytes, { level: 9 }) : null
    return [name, { bytes, gzip: packed, type: TYPES[extension]! }]
  })
  return new Map(await Promise.all(entries))
}

/** The page. The addresses in it are relative, so that it also works behind a prefix. */
export async function consolePage(edge: Edge, exchange: Exchange): Promise<void> {
  const files = await filesFor(edge, exchange)
  if (files !== null) reply(exchange, files.get(PAGE)!, 'no-cache')
}

/** A file of the bundle; its name changes with its content. */
export async function consoleFile(edge: Edge, exchange: Exchange): Promise<void> {
  const { file: name = '' } = exchange.params
  const files = await filesFor(edge, exchange)
  if (files === null) return
  const file = files.get(name)
  if (file === undefined || name === PAGE) return exchange.refuse('not_found')
  reply(exchange, file, 'public, max-age=31536000, immutable')
}

/** Null: the request was refused and answered. */
async function filesFor(edge: Edge, exchange: Exchange): Promise<ConsoleFiles | null> {
  const files = isOff(edge) ? null : await edge.console.files().catch(() => null)
  if (files?.has(PAGE)) return files
  exchange.refuse('not_found', isOff(edge) ? OFF : MISSING)
  return null
}

function reply(exchange: Exchange, { bytes, gzip, type }: ConsoleFile, cache: string): void {
  const packed = exchange.received.acceptsGzip ? gzip : null
  exchange.reply(200, packed ?? bytes, {
    ...SECURITY,
    'Content-Type': type,
    'Cache-Control': cache,
    ...(gzip === null ? {} : { Vary: 'Accept-Encoding' }),
    ...(packed === null ? {} : { 'Content-Encoding': 'gzip' }),
  })
}

/** The page lets whoever opens it do everything, so it needs what keeps others out. */
const isOff = ({ config, application }: Edge): boolean =>
  !isLoopback(config.host) && !config.require_keys && application?.auth == null
