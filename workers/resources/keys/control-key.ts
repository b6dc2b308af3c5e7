/** The key of the control plane: made once, stored in the data folder, known to edges by its digest only. */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bytesHandler } from '../../../bus/serve.js'
import type { Config } from '../../../schemas/config.js'
import type { Store } from '../../../store/port.js'
import { newRecord } from '../rows/record.js'
import { kept } from './secret-file.js'

/** An edge that has no key of its own learns by this which one fits; the digest of a random key tells nothing. */
export const control = (sha256: string) => ({ key: bytesHandler(() => ({ body: JSON.stringify({ sha256 }) })) })

/**
 * The SHA-256 of the key of the control plane: the given one, else one that is made once and kept in the data folder
 * (mode 0600). Of several workers on one store the first makes it, and the digest is kept in the store for the others.
 */
export async function controlDigest({ control_key, data, mongodb_url }: Config, store: Store): Promise<string> {
  if (control_key !== '') return sha256(control_key)
  const path = join(data, 'control.key')
  const own = () => sha256(kept(path, () => `weft_${randomBytes(32).toString('base64url')}`))
  if (mongodb_url === '') return own()
  const stored = async () => {
    const row = await store.records.get('setting', 'control_key')
    return row === null ? null : (JSON.parse(row.body) as string)
  }
  const before = await stored()
  if (before !== null) return before
  const had = existsSync(path)
  const mine = own()
  const row = newRecord('setting', 'control_key', { body: JSON.stringify(mine) })
  if ((await store.apply([{ step: 'records.insert', row }])) === -1) return mine
  // Another worker was faster: a key that opens nothing must not lie about.
  if (!had) rmSync(path, { force: true })
  return (await stored())!
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
