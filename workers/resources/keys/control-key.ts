/** The key of the control plane: made once and stored in the data folder; edges get its digest only. */
import { hash, randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bytesHandler } from '../../../bus/serve.js'
import { type Config, controlKeysOf, isEmbedded } from '../../../schemas/config.js'
import type { Store } from '../../../store/port.js'
import { onceInStore } from '../rows/record.js'
import { readOrCreateSecret } from './secret-file.js'

/** An edge without a configured key checks keys against this digest, which reveals nothing about a random key. */
export const control = ([sha256, ...more]: readonly string[]) => ({
  // Edges of before there were several know the first one only.
  key: bytesHandler(() => ({ body: JSON.stringify({ sha256, more }) })),
})

/**
 * The SHA-256 of the control-plane keys: those that are configured, else of a key that is made once and stored in the data folder
 * (mode 0600). Of several workers on one store the first makes it, and stores the digest for the others.
 */
export async function controlDigests({ data, ...config }: Config, store: Store): Promise<string[]> {
  const given = controlKeysOf(config)
  if (given.length > 0) return given.map(key => hash('sha256', key))
  const path = join(data, 'control.key')
  const own = () =>
    hash(
      'sha256',
      readOrCreateSecret(path, () => `weft_${randomBytes(32).toString('base64url')}`),
    )
  if (isEmbedded(config)) return [own()]
  const hadFile = existsSync(path)
  const { value, mine } = await onceInStore(store, 'control_key', own)
  // Another worker was faster: remove the file with a key that is not valid.
  if (!mine && !hadFile) rmSync(path, { force: true })
  return [value]
}
