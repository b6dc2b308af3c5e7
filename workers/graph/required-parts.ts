/**
 * Parts of an application without which nothing of it can be stored or read: its encryption handlers (`encryption`) and its
 * store (`store.path`). Each has an app host that is started with the worker, for resource workers; the application is not
 * served while one cannot be loaded.
 */
import type { AppHello, AppPart, ContextCall, EncryptCall, EncryptionHandlers } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import { unpack } from '../../schemas/packed.js'
import { type AppHost, type AppHostOptions, openAppHost } from '../child/app-host.js'

/** The caller waits this long (resources/encryption/handlers.ts, resources/items/app-store.ts). */
const REMOTE_MS = 30_000

interface Part extends Pick<AppHost, 'stop'> {
  /** Passes a call on. Rejects as AppHost.call does. */
  call(bytes: Uint8Array): Promise<Uint8Array>
}

export interface Encryptor extends Part {
  handlers: EncryptionHandlers
}

type Options = Omit<AppHostOptions, 'parts'>

/** Throws an Error with one sentence. A call is packed; it is refused with `bad_request` when it is of another kind. */
export async function openEncryptor(options: Options): Promise<Encryptor> {
  const { host, hello } = await open(options, 'encryption', ({ encryption }) => encryption != null)
  return {
    handlers: hello.encryption!,
    call(bytes) {
      const { head, rest } = readCall(bytes)
      return host.call(head, rest, REMOTE_MS)
    },
    stop: host.stop,
  }
}

/** Throws an Error with one sentence. A call is an ItemBatch, and its answer a list of StoreAnswer, both as JSON. */
export async function openAppStore(options: Options): Promise<Part> {
  const { host } = await open(options, 'store')
  return { call: batch => host.call({ verb: 'items' }, batch, REMOTE_MS), stop: host.stop }
}

async function open(options: Options, part: AppPart, has: (hello: AppHello) => boolean = () => true) {
  const host = openAppHost({ ...options, parts: [part] })
  const hello = await host.hello
  if (hello.error === null && has(hello)) return { host, hello }
  await host.stop()
  throw new Error(`the application cannot be served: ${hello.error ?? `its ${part} has no handlers`}`)
}

function readCall(bytes: Uint8Array): { head: EncryptCall | ContextCall; rest: Uint8Array } {
  try {
    const { head, rest } = unpack<EncryptCall | ContextCall>(bytes)
    if (head.verb === 'encrypt' || head.verb === 'encryption_context') return { head, rest }
  } catch {
    // It counts as a call of another kind.
  }
  throw fail('bad_request', 'The call is no question to encryption handlers')
}
