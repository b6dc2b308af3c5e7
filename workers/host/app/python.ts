/**
 * The parts of an application that are written in Python: a child process of the app host (host-python/weft_host/app) that
 * has the interpreter of the application. It only calls the functions that it is told to call: which ones, with what, and
 * what an answer means is decided here, as for JavaScript. The app host ends with it, and its parent starts both again.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import {
  type ContextCall,
  type EmbedCall,
  type EncryptCall,
  type EncryptionHandlers,
  type PythonAnswer,
  type PythonCall,
  type PythonHello,
  type PythonParts,
  validatePythonAnswer,
  validatePythonHello,
} from '../../../schemas/app-host.js'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { validateCallFailure } from '../../../schemas/host.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { pack } from '../../../schemas/packed.js'
import { TransientMap } from '../../../schemas/transient.js'
import {
  FROM_HOST,
  type Frame,
  frameWriter,
  MAX_BODY,
  MalformedFrame,
  readFrames,
  readJson,
  TO_HOST,
} from '../../pipe.js'
import type { AuthHandlers } from './auth.js'
import type { Embedder } from './embed.js'
import type { OpenStore } from './store.js'

/** Below the root of the package: sources run from `dist`, where no Python is. */
const PROGRAM = fileURLToPath(new URL('../../../../workers/host-python/start.py', import.meta.url))
/** For the end of the lifespan of `http.app`; the parent of the app host waits 3 s. */
const STOP_MS = 2_500
const encoder = new TextEncoder()
const NOTHING = new Uint8Array(0)

/** The handlers of `encryption`; questions and answers are passed on as they are. */
export interface PythonEncryption {
  handlers: EncryptionHandlers
  ask(call: EncryptCall | ContextCall, body: Uint8Array): Promise<Uint8Array>
}

export interface PythonPart {
  auth: AuthHandlers | null
  embedder: Embedder | null
  encryption: PythonEncryption | null
  /** The store of `store.path`, which Python closes by itself. */
  store: OpenStore | null
  /** The beginnings of the paths that `http.app` may handle, which Python serves by itself. */
  http: string[] | null
  /** Resolves when the process has ended. */
  stop(): Promise<void>
}

interface Options {
  /** The interpreter. */
  python: string
  parts: PythonParts
  /** The variables of the application. */
  env: { [name: string]: string | undefined }
  memory_mb: string
  /** The descriptor of the watchdog's frames, which Python writes by itself. */
  notes: number | null
  /** The process has ended, after it was loaded. */
  onEnd(): void
}

interface Pending {
  resolve(body: Uint8Array): void
  reject(error: unknown): void
}

/** Resolves when the parts are loaded. Rejects with an Error with one sentence. */
export async function startPython({ python, parts, env, memory_mb, notes, onEnd }: Options): Promise<PythonPart> {
  const pending = new TransientMap<number, Pending>()
  let lastId = 0
  const child: ChildProcess = spawn(python, ['-X', 'utf8', PROGRAM, 'app'], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe', notes ?? 'ignore'],
    env: {
      ...env,
      WEFT_DESCRIPTION: JSON.stringify(parts),
      WEFT_HOST_MEMORY_MB: memory_mb,
      ...(notes === null ? {} : { WEFT_NOTES_FD: '4' }),
    },
  })
  const pipe = child.stdio[3] as unknown as Duplex
  pipe.on('error', () => {})
  const write = frameWriter(pipe)
  const ended = new Promise<string>(resolve => {
    child.once('error', error => resolve(`${python} cannot be started: ${error.message}`))
    child.once('exit', (code, signal) => resolve(`Python ended with ${signal ?? `exit code ${code}`}`))
  })

  const hello = await new Promise<PythonHello>((resolve, reject) => {
    void ended.then(how => {
      reject(new Error(how))
      for (const { reject } of pending.values()) reject(new Error(how))
    })
    const onMalformed = (error: Error) => {
      console.error('The Python part of the app host sent a malformed frame:', error)
      child.kill('SIGKILL')
    }
    readFrames(
      pipe,
      frame => {
        if (frame.kind === FROM_HOST.hello) resolve(readJson(frame.body, validatePythonHello))
        else if (frame.kind === FROM_HOST.called) onAnswer(frame)
        else throw new MalformedFrame('its kind is not known')
      },
      onMalformed,
    )
  })
  if (hello.error !== null) {
    child.kill('SIGKILL')
    throw new Error(hello.error)
  }
  void ended.then(onEnd)

  function onAnswer({ id, flags, body }: Frame): void {
    const call = pending.get(id)
    pending.delete(id)
    if (flags === 0) return call?.resolve(body)
    const { detail } = readJson(body, validateCallFailure)
    // Python has printed its stack.
    call?.reject(Object.assign(new Error(detail), { stack: detail }))
  }

  function ask(head: PythonCall, body: Uint8Array = NOTHING): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const id = ++lastId
      pending.set(id, { resolve, reject })
      write({ kind: TO_HOST.call, id, body: pack(head, [body]) })
    })
  }

  return {
    auth: hello.auth === null ? null : handlersOf(hello.auth, ask),
    embedder: parts.embed === null ? null : embedderOf(ask),
    encryption: hello.encryption ? { handlers: hello.encryption, ask } : null,
    store: parts.store === null ? null : { answer: batch => ask({ verb: 'items' }, batch), close: async () => {} },
    http: hello.http,
    async stop() {
      pipe.end()
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await ended
      clearTimeout(timer)
    },
  }
}

type Ask = (head: PythonCall, body?: Uint8Array) => Promise<Uint8Array>

/** The handlers as those of an Auth in JavaScript. */
function handlersOf({ authenticate, handlers }: NonNullable<PythonHello['auth']>, ask: Ask): AuthHandlers {
  const callbackOf = (name: string) => async (event: JsonObject) => {
    const { resource, action, value, user } = event as { [name: string]: unknown }
    const head = {
      verb: 'authorize',
      name,
      resource: `${resource}`,
      action: `${action}`,
      user: user as AuthUser,
    } as const
    const answer = readAnswer(await ask(head, encoder.encode(jsonText(value))))
    if (answer.value !== undefined) assign(value as JsonObject, answer.value)
    return answer.result
  }
  return {
    exact: true,
    ...(authenticate
      ? {
          authenticate: async ({ method, url, headers, params, query }, body) =>
            readAnswer(await ask({ verb: 'authenticate', method, url, headers, params, query }, body)).result,
        }
      : {}),
    callbacks: Object.fromEntries(handlers.map(name => [name, callbackOf(name)])),
  }
}

/** Throws an HTTPException of the application as the SDK for JavaScript has it. */
function readAnswer(body: Uint8Array): Extract<PythonAnswer, { result: unknown }> {
  // The body of the request, as handlers have changed it, is part of it.
  const answer = readJson(body, validatePythonAnswer, { most: MAX_BODY, parse: parseJson })
  if (!('refused' in answer)) return answer
  const { status, detail, headers } = answer.refused
  throw { status, headers, message: detail }
}

/** Makes the target equal to the source, in place: parts of it are parts of the request. */
function assign(target: JsonObject, source: JsonObject): void {
  for (const name of Object.keys(target)) if (!Object.hasOwn(source, name)) delete target[name]
  for (const [name, value] of Object.entries(source)) {
    const known = Object.hasOwn(target, name) ? target[name] : undefined
    if (isObject(known) && isObject(value)) assign(known, value)
    else target[name] = value
  }
}

/** The vectors arrive behind the length of each. */
function embedderOf(ask: Ask): Embedder {
  const embed = (kind: EmbedCall['kind']) => async (texts: string[]) => {
    const body = await ask({ verb: 'embed', kind, texts })
    const bytes = new Uint8Array(body).buffer
    const isWhole = bytes.byteLength % 4 === 0 && bytes.byteLength >= 4 * texts.length
    const lengths = isWhole ? [...new Uint32Array(bytes, 0, texts.length)] : []
    const floats = isWhole ? new Float32Array(bytes, 4 * texts.length) : new Float32Array(0)
    if (lengths.reduce((sum, length) => sum + length, 0) !== floats.length)
      throw new TypeError(`store.index.embed returned no list of ${texts.length} vectors`)
    let at = 0
    return lengths.map(length => floats.subarray(at, (at += length)))
  }
  return { documents: embed('documents'), query: embed('query') }
}
