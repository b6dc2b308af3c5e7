/**
 * In whose name a cron fires (decision 075): the last caller that changed what it executes. One that came with a key fires
 * only while that key is valid, and within its limit of runs; else it is paused.
 */
import { isDeepStrictEqual } from 'node:util'
import { allows, isKeyUser } from '../../../schemas/auth/keys.js'
import type { CallHead } from '../../../schemas/calls.js'
import { parseJson } from '../../../schemas/exact.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Deps } from '../context.js'
import { findValidKey } from '../keys/row.js'
import { each } from '../rows/record.js'
import { CRON, type CronBody, changeStep, ownerKey, paused } from './record.js'

export type Owner = Required<Pick<CronBody, 'user' | 'user_id' | 'key'>> & { headers: CronBody['headers'] | undefined }

/** The caller as the owner of a cron. */
export const ownerOf = ({ identity, key, headers }: CallHead): Owner => ({
  user_id: identity?.identity ?? null,
  user: identity ?? null,
  key: key?.id ?? null,
  headers,
})

/** Whether both execute the same; their times may differ. */
export const isSameWork = ({ payload: one }: CronBody, { payload: other }: CronBody): boolean =>
  isDeepStrictEqual({ ...one, schedule: '' }, { ...other, schedule: '' })

/** Why a cron may not fire any more. */
export interface Lost {
  key_id: string
  lost: string
}

/** The key that the runs of a cron count for, if it has one, unless that opens nothing any more. */
export async function rightsOf(
  deps: Deps,
  { app }: RecordRow,
  body: CronBody,
): Promise<{ key?: CallHead['key'] } | Lost> {
  const key_id = body.key !== undefined ? body.key : await guessKey(deps, app, body)
  if (key_id === null) return {}
  const key = await findValidKey(deps.store, key_id)
  if (key === null) return { key_id, lost: `Its key ${key_id} was revoked or has expired` }
  // The scope that making a cron needs.
  if (!allows(key.scopes, ['write'])) return { key_id, lost: `Its key ${key_id} lacks the scope write` }
  return { key: { id: key_id, running_runs: key.limits.running_runs } }
}

/** An earlier version kept the identity of the creator alone. Where an `auth` identifies callers, it is not that of a key. */
async function guessKey({ apps }: Deps, app: string, { user }: CronBody): Promise<string | null> {
  return user != null && isKeyUser(user) && (await apps.takesKeys(app)) ? user.identity : null
}

/** Pauses the enabled crons of a revoked key; resolves to their number. */
export async function pauseCronsOf({ store, link }: Pick<Deps, 'store' | 'link'>, key_id: string): Promise<number> {
  let count = 0
  for await (const found of each(store, { kind: CRON, keys: [ownerKey(key_id)] }))
    for (let row: RecordRow | null = found; row !== null; row = await store.records.get(CRON, row.id)) {
      const body = parseJson(row.body) as CronBody
      if (!body.enabled || body.key !== key_id) break
      // Fired or changed meanwhile: read it again.
      if ((await store.apply([changeStep(row, paused(body, `Its key ${key_id} was revoked`))])) !== -1) continue
      link.log.warn({ cron_id: row.id, key_id }, 'cron paused: its key was revoked')
      count++
      break
    }
  return count
}
