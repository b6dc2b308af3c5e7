/** The key of the control plane: made once and stored in the data folder; edges get its digest only. */
import { hash, randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bytesHandler } from '../../../bus/serve.js'
import { type Config, isEmbedded } from '../../../schemas/config.js'
import type { Store } from '../../../store/port.js'
import { onceInStore } from '../rows/record.js'
import { readOrCreateSecret } from './secret-file.js'

/** An edge without a configured key checks keys against this digest, which reveals nothing about a random key. */
export const control = (sha256: string) => ({ key: bytesHandler(() => ({ body: JSON.stringify({ sha256 }) })) })

/**
 * The SHA-256 of the control-plane key: the configured key, else a key that is made once and stored in the data folder
 * (mode 0600). Of several workers on one store the first makes it, and stores the digest for the others.
 */
export async function controlDigest({ control_key, data, ...config }: Config, store: Store): Promise<string> {
  if (control_key !== '') return hash('sha256', control_key)
  const path = join(data, 'control.key')
  const own = () =>
    hash(
      'sha256',
      readOrCreateSecret(path, () => `weft_${randomBytes(32).toString('base64url')}`),
    )
  if (isEmbedded(config)) return own()
  const hadFile = existsSync(path)
  const { value, mine } = await onceInStore(store, 'control_key', own)
  // Another worker was faster: remove the file with a key that is not valid.
  if (!mine && !hadFile) rmSync(path, { force: true })
  return value
}
