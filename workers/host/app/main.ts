/**
 * The app host: a child process that loads what the application named by WEFT_APP brings beside its graphs, and answers
 * calls of its parent over descriptor 3. Like a graph host it has no other connection and no credential. It runs no
 * graphs. Its watchdog reports a blocked event loop over WEFT_NOTES_FD; every call counts as slot 1.
 */
import { existsSync, readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AppCall, AppHello, AppPart, PythonExport } from '../../../schemas/app-host.js'
import { type AppConfig, readAppConfig } from '../../../schemas/application.js'
import { exportOf, languagesOfParts, localFolders, type Parts } from '../../../schemas/description.js'
import { unpack } from '../../../schemas/packed.js'
import { FROM_HOST, frameWriter, readFrames, TO_HOST } from '../../pipe.js'
import { startWatchdog } from '../guards/watchdog.js'
import { idleFor, LOAD_IDLE_MS } from '../idle.js'
import { registerLogger } from '../library/logger.js'
import { hasLoader, importExport, preloadSdk, prepareLoading } from '../loading.js'
import { type AuthHandlers, check, handlersOf } from './auth.js'
import { type Embedder, embed, embedFile, loadEmbedder } from './embed.js'
import { serveHttp } from './http.js'
import { type PythonEncryption, type PythonPart, startPython } from './python.js'
import { type OpenStore, openStore } from './store.js'
import { bundleUi } from './ui.js'

/** The code of the application has this time to answer a check. */
const CHECK_MS = 5_000
/** A key service, and the database of a store, are called over a network. */
const REMOTE_MS = 25_000
/** The parent waits for 3 s. */
const CLOSE_MS = 2_800
const encoder = new TextEncoder()

const { WEFT_APP: path = '', WEFT_NOTES_FD: notes, WEFT_APP_PARTS: parts = '', WEFT_APP_SOCKETS: sockets } = process.env
const { WEFT_APP_PYTHON: python, WEFT_HOST_MEMORY_MB: memory_mb = '0' } = process.env
for (const name of Object.keys(process.env)) if (name.startsWith('WEFT_')) delete process.env[name]
const watchdog = startWatchdog(notes === undefined ? null : Number(notes), 1)
const stream = new Socket({ fd: 3 })
/** Its process is a child of this one. */
let pythonPart: PythonPart | null = null
let store: OpenStore | null = null
let isEnding = false
// The parent process has ended, or wants this one to: no process waits for answers.
for (const event of ['end', 'close', 'error']) stream.on(event, () => void end())
async function end(): Promise<void> {
  if (isEnding) return
  isEnding = true
  await Promise.race([Promise.allSettled([pythonPart?.stop(), store?.close()]), sleep(CLOSE_MS)])
  process.exit(0)
}
// The end of the pipe follows it, and gives Python time to end the lifespan of `http.app`, and a store time to close.
process.on('SIGTERM', () => void (pythonPart === null && store === null ? process.exit(143) : end()))
const write = frameWriter(stream)

interface Loaded {
  config: AppConfig
  auth: AuthHandlers | null
  embedder: Embedder | null
  encryption: PythonEncryption | null
  dims: number
  http: string[] | null
}

/** Loads what langgraph.json names. Throws an Error with one sentence. */
async function load(): Promise<Loaded> {
  const config = readAppConfig({ path, env: process.env, read: readText })
  const { folder, env, node_loader, index } = config
  const has = (part: AppPart) => parts.split(',').includes(part)
  const named: Parts = {
    auth: has('auth') ? (config.auth?.path ?? null) : null,
    embed: has('embed') ? (index?.embed ?? null) : null,
    encryption: has('encryption') ? config.encryption : null,
    http: has('http') && sockets !== undefined ? config.http.app : null,
    store: has('store') ? config.store : null,
  }
  const languages = languagesOfParts(named, config.graphs)
  const of = (language: string): Parts => ({
    auth: languages.auth === language ? named.auth : null,
    embed: languages.embed === language ? named.embed : null,
    encryption: languages.encryption === language ? named.encryption : null,
    http: languages.http === language ? named.http : null,
    store: languages.store === language ? named.store : null,
  })
  for (const [name, value] of Object.entries(env)) process.env[name] ??= value
  const { auth, embed, http, store: ownStore } = of('javascript')
  const authFile = auth === null ? null : exportOf(auth, folder).file
  const embedderFile = embed === null ? null : embedFile(index!, folder)
  const appFile = http === null ? null : exportOf(http, folder).file
  const storeFile = ownStore === null ? null : exportOf(ownStore, folder).file
  const files = [authFile, embedderFile, appFile, storeFile].filter(file => file !== null)
  // A loader of the application may want to see what is imported.
  if (!hasLoader(node_loader)) await preloadSdk(files)
  await prepareLoading(folder, files, node_loader, process.env)
  registerLogger(() => undefined, process.env.LOG_LEVEL)
  const inPython = of('python')
  if (Object.values(inPython).some(part => part !== null)) pythonPart = await loadPython(config, inPython)
  store =
    ownStore === null
      ? (pythonPart?.store ?? null)
      : await openStore(await importPart('store.path', ownStore, folder), ownStore)
  return {
    config,
    auth: auth === null ? (pythonPart?.auth ?? null) : handlersOf(await importPart('auth.path', auth, folder), auth),
    embedder: embed === null ? (pythonPart?.embedder ?? null) : await loadEmbedder(index!, folder),
    dims: index?.dims ?? 0,
    encryption: pythonPart?.encryption ?? null,
    http: http === null ? (pythonPart?.http ?? null) : await loadHttp(http, folder),
  }
}

function loadPython(
  { folder, dependencies }: AppConfig,
  { auth, embed, encryption, http, store }: Parts,
): Promise<PythonPart> {
  if (python === undefined) throw new Error('the application has parts in Python, and no Python was found for them')
  const exportIn = (text: string | null): PythonExport | null => {
    if (text === null) return null
    const { file, module, name } = exportOf(text, folder)
    return { text, place: file ?? module ?? '', name }
  }
  const embedder = exportIn(embed)
  const isProvider = embedder !== null && !/\.pyi?$/.test(embedder.place)
  return startPython({
    python,
    parts: {
      folder,
      dependencies: localFolders(dependencies, folder).filter(each => existsSync(each)),
      auth: exportIn(auth),
      embed: isProvider ? { text: embed!, place: embed!, name: null } : embedder,
      encryption: exportIn(encryption),
      http: exportIn(http),
      store: exportIn(store),
      sockets: sockets ?? null,
    },
    env: process.env,
    memory_mb,
    notes: notes === undefined ? null : Number(notes),
    // Without it no question can be answered: the parent starts both again.
    onEnd: () => process.exit(isEnding ? 0 : 1),
  })
}

/** `member`: where langgraph.json names it. */
async function importPart(member: string, path: string, folder: string): Promise<unknown> {
  const { file, name } = exportOf(path, folder)
  if (!existsSync(file!)) throw new Error(`${member}: the file ${file} does not exist`)
  return importExport(file!, name)
}

async function loadHttp(path: string, folder: string): Promise<string[]> {
  const exported = await importPart('http.app', path, folder)
  const inject = await importExport(exportOf(path, folder).file!, 'injectWebSocket')
  return serveHttp(exported, { name: path, folder: sockets!, inject })
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

async function answer({ config, auth, embedder, encryption, dims }: Loaded, body: Uint8Array): Promise<Uint8Array> {
  const { head, rest } = unpack<AppCall>(body)
  if (head.verb === 'embed') {
    if (embedder === null) throw failure('invalid', 'The application has no store.index')
    return embed(embedder, dims, head).catch(error => {
      console.error('store.index.embed failed:', error)
      throw failure('invalid', `The text could not be embedded: ${sentenceOf(error)}`)
    })
  }
  if (head.verb === 'encrypt' || head.verb === 'encryption_context') {
    if (encryption === null) throw failure('internal', 'The application has no encryption')
    const asked = encryption.ask(head, rest).catch(error => {
      const detail = sentenceOf(error)
      if (detail.startsWith(KEYS_CHANGED)) throw failure('invalid', `encryption: ${detail.slice(KEYS_CHANGED.length)}`)
      console.error('An encryption handler failed:', error)
      throw failure('unavailable', HANDLER_FAILED)
    })
    return within(REMOTE_MS, asked, 'The encryption handlers did not answer in time', 'unavailable')
  }
  if (head.verb === 'items') {
    if (store === null) throw failure('internal', 'The application has no store.path')
    return within(REMOTE_MS, store.answer(rest), 'The store of the application did not answer in time', 'unavailable')
  }
  if (head.verb === 'ui') return userInterface(config, head.graph_id)
  if (auth === null) throw failure('internal', 'The application has no auth')
  return within(CHECK_MS, check(auth, head, rest), 'The authentication did not answer in time')
}

async function userInterface(config: AppConfig, graph_id: string): Promise<Uint8Array> {
  const bundle = await bundleUi(config, graph_id).catch(error => {
    console.error(`The user interface of "${graph_id}" could not be bundled:`, error)
    throw failure('internal', `The user interface of "${graph_id}" could not be bundled; the log has the reason`)
  })
  if (bundle === null) throw failure('not_found', `There is no user interface for "${graph_id}"`)
  return bundle
}

/** The exception of host-python/weft_host/app/encryption.py. */
const KEYS_CHANGED = 'KeysChangedError: '
const HANDLER_FAILED = 'An encryption handler of the application failed; the log of its graph worker has the reason'

/** The body of a `called` frame with flags 1. */
const failure = (code: string, detail: string) => ({ code, detail })
const sentenceOf = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, 500)

/**
 * Rejects with `detail` when the work takes longer. Each request with `auth` comes here: p-timeout, which makes an error with
 * a stack for each call, takes 21 µs instead of 2 µs.
 */
function within<T>(ms: number, work: Promise<T>, detail: string, code = 'internal'): Promise<T> {
  let timer: NodeJS.Timeout
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure(code, detail)), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

let calls = 0
const count = (change: number) => watchdog.busy((calls += change))

const hello = (loaded: Partial<Loaded>, error: string | null): AppHello => ({
  error,
  auth: Boolean(loaded.auth),
  embed: Boolean(loaded.embedder),
  encryption: loaded.encryption?.handlers ?? null,
  http: loaded.http ?? null,
})

const LATE =
  'its auth, encryption, http.app, store or embedder did not finish loading in time: something at the top level of its module waits without end'

count(1)
/** Parts in Python load in a process of their own, for which this one waits idle. */
const late =
  python === undefined
    ? idleFor(LOAD_IDLE_MS).then(() => Promise.reject(failure('internal', LATE)))
    : new Promise<never>(() => {})
const loaded = await Promise.race([load(), late]).catch(error => {
  if (error instanceof Error) console.error(error)
  return String((error as { detail?: string }).detail ?? sentenceOf(error))
})
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
