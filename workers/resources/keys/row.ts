/** A built-in key as it is stored: a record of kind `key`. */
import type { KeyRecord } from '../../../schemas/auth/keys.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'

export const KEY = 'key'

/** The body of a key's record; times in ms. */
export interface KeyBody extends Omit<KeyRecord, 'id'> {
  last_used_at: number | null
  /** Absent in records of earlier versions: the command. */
  created_by?: string
}

export const bodyOf = ({ body }: RecordRow): KeyBody => JSON.parse(body) as KeyBody

export const isExpired = ({ expires_at }: Pick<KeyBody, 'expires_at'>): boolean =>
  expires_at !== null && expires_at <= clock.now()

/** A key that still opens something; null: it was revoked or has expired. For work that no request of the key began. */
export async function findValidKey({ records }: Store, id: string): Promise<KeyBody | null> {
  const row = await records.get(KEY, id)
  const body = row === null ? null : bodyOf(row)
  return body === null || isExpired(body) ? null : body
}
