/**
 * The encryption handlers of the application (`encryption` of langgraph.json) for resource workers, in an app host that is
 * started with the worker: nothing of the application can be stored or read without them.
 */
import type { ContextCall, EncryptCall, EncryptionHandlers } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import { unpack } from '../../schemas/packed.js'
import { type AppHostOptions, openAppHost } from '../child/app-host.js'

/** The caller waits this long (resources/encryption/handlers.ts). */
const ENCRYPT_MS = 30_000

export interface Encryptor {
  handlers: EncryptionHandlers
  /** Passes a packed call on. Rejects with `bad_request` for bytes that are none, and as AppHost.call does. */
  call(bytes: Uint8Array): Promise<Uint8Array>
  stop(): Promise<void>
}

/** Throws an Error with one sentence when the handlers cannot be loaded: the application is not served without them. */
export async function openEncryptor(options: Omit<AppHostOptions, 'parts'>): Promise<Encryptor> {
  const host = openAppHost({ ...options, parts: ['encryption'] })
  const { error, encryption } = await host.hello
  if (error === null && encryption)
    return {
      handlers: encryption,
      call(bytes) {
        const { head, rest } = readCall(bytes)
        return host.call(head, rest, ENCRYPT_MS)
      },
      stop: host.stop,
    }
  await host.stop()
  throw new Error(`the application cannot be served: ${error ?? 'its encryption has no handlers'}`)
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
