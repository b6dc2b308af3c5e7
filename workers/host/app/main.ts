/**
 * The app host: a child process that loads what the application named by WEFT_APP brings beside its graphs, and answers
 * calls of its parent over descriptor 3. Like a graph host it has no other connection and no credential. It runs no
 * graphs. Its watchdog reports a blocked event loop over WEFT_NOTES_FD; every call counts as slot 1.
 */
import { readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { resolve } from 'node:path'
import type { AppCall, AppHello, AppPart } from '../../../schemas/app-host.js'
import { readAppConfig } from '../../../schemas/application.js'
import { unpack } from '../../../schemas/packed.js'
import { FROM_HOST, frameWriter, readFrames, TO_HOST } from '../../pipe.js'
import { importExport, prepareLoading } from '../loading.js'
import { registerLogger } from '../logger.js'
import { startWatchdog } from '../watchdog.js'
import { type AuthHandlers, check, handlersOf } from './auth.js'
import { type Embedder, embed, embedFile, loadEmbedder } from './embed.js'
import { serveHttp } from './http.js'

/** The code of the application has this time to answer a check. */
const CHECK_MS = 5_000
const LOAD_MS = 40_000
const encoder = new TextEncoder()

const { WEFT_APP: path = '', WEFT_NOTES_FD: notes, WEFT_APP_PARTS: parts = '', WEFT_APP_SOCKETS: sockets } = process.env
for (const name of Object.keys(process.env)) if (name.startsWith('WEFT_')) delete process.env[name]
const watchdog = startWatchdog(notes === undefined ? null : Number(notes), 1)
const stream = new Socket({ fd: 3 })
// The parent process has ended: no process waits for answers.
for (const event of ['end', 'close', 'error']) stream.on(event, () => process.exit(0))
const write = frameWriter(stream)

interface Loaded {
  auth: AuthHandlers | null
  embedder: Embedder | null
  dims: number
  http: string[] | null
}

/** Loads what langgraph.json names. Throws an Error with one sentence. */
async function load(): Promise<Loaded> {
  const config = readAppConfig({ path, env: process.env, read: readText })
  const { folder, env, node_loader } = config
  const has = (part: AppPart) => parts.split(',').includes(part)
  const auth = has('auth') ? config.auth : null
  const index = has('embed') ? config.index : null
  const app = has('http') && sockets !== undefined ? config.http.app : null
  for (const [name, value] of Object.entries(env)) process.env[name] ??= value
  const authFile = auth === null ? null : fileOf(auth.path, folder)
  const embedderFile = index === null ? null : embedFile(index, folder)
  const appFile = app === null ? null : fileOf(app, folder)
  await prepareLoading(
    folder,
    [authFile, embedderFile, appFile].filter(file => file !== null),
    node_loader,
    process.env,
  )
  registerLogger(() => undefined, process.env.LOG_LEVEL)
  return {
    auth: auth === null ? null : handlersOf(await importExport(authFile!, exportOf(auth.path)), auth.path),
    embedder: index === null ? null : await loadEmbedder(index, folder),
    dims: index?.dims ?? 0,
    http: app === null ? null : await loadHttp(appFile!, app, sockets!),
  }
}

async function loadHttp(file: string, name: string, folder: string): Promise<string[]> {
  const exported = await importExport(file, exportOf(name))
  return serveHttp(exported, { name, folder, inject: await importExport(file, 'injectWebSocket') })
}

/** The halves of `file:export`; the export may be missing. */
const fileOf = (text: string, folder: string) => resolve(folder, halvesOf(text)[0])
const exportOf = (text: string) => halvesOf(text)[1] || 'default'

function halvesOf(text: string): [file: string, name: string] {
  const colon = text.lastIndexOf(':')
  return colon === -1 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)]
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

async function answer({ auth, embedder, dims }: Loaded, body: Uint8Array): Promise<Uint8Array> {
  const { head, rest } = unpack<AppCall>(body)
  if (head.verb === 'embed') {
    if (embedder === null) throw failure('invalid', 'The application has no store.index')
    return embed(embedder, dims, head).catch(error => {
      console.error('store.index.embed failed:', error)
      throw failure('invalid', `The text could not be embedded: ${sentenceOf(error)}`)
    })
  }
  if (auth === null) throw failure('internal', 'The application has no auth')
  return within(CHECK_MS, check(auth, head, rest), 'The authentication did not answer in time')
}

/** The body of a `called` frame with flags 1. */
const failure = (code: string, detail: string) => ({ code, detail })
const sentenceOf = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, 500)

/** Rejects with `detail` when the work takes longer. */
function within<T>(ms: number, work: Promise<T>, detail: string): Promise<T> {
  let timer: NodeJS.Timeout
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure('internal', detail)), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

let calls = 0
const count = (change: number) => watchdog.busy((calls += change))

const hello = (loaded: Partial<Loaded>, error: string | null): AppHello => ({
  error,
  auth: Boolean(loaded.auth),
  embed: Boolean(loaded.embedder),
  http: loaded.http ?? null,
})

count(1)
const loaded = await within(LOAD_MS, load(), 'its auth, http.app or embedder did not finish loading in time').catch(
  error => {
    if (error instanceof Error) console.error(error)
    return String((error as { detail?: string }).detail ?? sentenceOf(error))
  },
)
count(-1)
if (typeof loaded === 'string') {
  write({ kind: FROM_HOST.hello, body: encoder.encode(JSON.stringify(hello({}, loaded))) })
  setImmediate(() => setImmediate(() => stream.end(() => process.exit(1))))
} else {
  readFrames(stream, ({ kind, id, body }) => {
    if (kind !== TO_HOST.call) return
    count(1)
    answer(loaded, body)
      .then(
        body => write({ kind: FROM_HOST.called, id, body }),
        error => {
          const known = typeof (error as { code?: unknown }).code === 'string' && !(error instanceof Error)
          if (!known) console.error('A call failed:', error)
          const text = JSON.stringify(known ? error : failure('internal', 'The code of the application failed'))
          write({ kind: FROM_HOST.called, flags: 1, id, body: encoder.encode(text) })
        },
      )
      .finally(() => count(-1))
  })
  write({ kind: FROM_HOST.hello, body: encoder.encode(JSON.stringify(hello(loaded, null))) })
}
