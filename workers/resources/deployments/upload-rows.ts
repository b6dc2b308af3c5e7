/**
 * The records of uploads (decision 054): one `upload`, and one `upload_part` for each 512 KiB, in base64. `due_at` is when
 * the sweep looks at an upload: a minute after the last part of one that is being received, an hour after the end of one
 * that no revision uses, never (null) for one that a revision uses.
 */
import { uploadPath } from '../../../schemas/deploy-calls.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import { newRecord } from '../rows/record.js'
import { type DeploymentBody, parseRow, type RevisionBody } from './row.js'

export const UPLOAD = 'upload'
const PART = 'upload_part'
/** Parts of one group are removed in one commit; others wait for it. */
const GROUP = 32
/** Time in which a revision must use an upload. */
export const UNUSED_MS = 3_600_000
/** Uploads of this many revisions are kept for redeployments, beside those that are served or built. */
const KEPT = 10

export interface UploadBody {
  status: 'receiving' | 'stored' | 'removed'
  token: string
  /** Grows before each part is stored. */
  parts: number
  size: number
  sha256: string
  /** When a revision was made of it last, ms; null: never. */
  used_at: number | null
}

const partId = (upload_id: string, part: number): string => `${upload_id}.${part}`

export const insertPart = (upload_id: string, part: number, bytes: Uint8Array): Step => ({
  step: 'records.insert',
  row: newRecord(PART, partId(upload_id, part), {
    parent: groupOf(upload_id, part),
    body: JSON.stringify(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')),
  }),
})

const groupOf = (upload_id: string, part: number): string => `${upload_id}.group${Math.floor(part / GROUP)}`

/** The bytes of a part; null when it is not stored. */
export async function readPart(store: Store, upload_id: string, part: number): Promise<Uint8Array | null> {
  const row = await store.records.get(PART, partId(upload_id, part))
  return row === null ? null : Buffer.from(JSON.parse(row.body) as string, 'base64')
}

export const patchUpload = (
  row: RecordRow,
  body: Partial<UploadBody>,
  due_at: number | null,
  where: { rev?: number } = { rev: row.rev },
): Step => ({
  step: 'records.patch',
  kind: UPLOAD,
  id: row.id,
  where,
  set: { body: JSON.stringify({ ...parseRow<UploadBody>(row).body, ...body }), due_at },
})

const PATH = /^uploads\/([0-9a-f-]{36})\/([0-9a-f-]{36})\.tar\.gz$/

/** The upload with this path that is completely stored for this deployment; null when there is none. */
export async function findUpload(store: Store, deployment_id: string, path: string): Promise<RecordRow | null> {
  const [, owner, id = ''] = PATH.exec(path) ?? []
  if (owner !== deployment_id) return null
  const row = await store.records.get(UPLOAD, id)
  return row !== null && row.parent === deployment_id && parseRow<UploadBody>(row).body.status === 'stored' ? row : null
}

/** Steps before and after the change that makes a revision of the upload: from the first ones on, no sweep removes it. */
export const useUpload = (row: RecordRow): { before: Step[]; after: Step[] } => ({
  before: [patchUpload(row, {}, clock.now() + UNUSED_MS)],
  after: [patchUpload(row, { used_at: clock.now() }, null, {})],
})

/** Hands uploads of old revisions to the sweep. */
export async function releaseUploads(store: Store, deployment_id: string): Promise<void> {
  const used = (await uploadsOf(store, deployment_id)).filter(({ due_at }) => due_at === null)
  const usedAt = (row: RecordRow) => parseRow<UploadBody>(row).body.used_at ?? 0
  const old = used.sort((a, b) => usedAt(b) - usedAt(a)).slice(KEPT)
  for (const row of old) await store.apply([patchUpload(row, {}, clock.now())])
}

const MANY = 1_000
export const uploadsOf = (store: Store, deployment_id: string): Promise<RecordRow[]> =>
  store.records.list({ kind: UPLOAD, parent: deployment_id, limit: MANY })

/** Removes the upload unless it was changed since it was read. Repeatable after a crash: its own record goes last. */
export async function removeUpload(store: Store, row: RecordRow): Promise<void> {
  const { parts } = parseRow<UploadBody>(row).body
  if ((await store.apply([patchUpload(row, { status: 'removed' }, clock.now())])) !== -1) return
  for (let part = 0; part < parts; part += GROUP)
    await store.apply([{ step: 'records.clear', kind: PART, parent: groupOf(row.id, part) }])
  await store.apply([{ step: 'records.remove', kind: UPLOAD, id: row.id, where: {} }])
}

const SWEPT = 100

/** Removes what broke off, what no revision used in time, and what only old revisions used. */
export async function sweepUploads(store: Store): Promise<void> {
  for (const row of await store.records.due(UPLOAD, clock.now(), SWEPT)) {
    const { status, used_at } = parseRow<UploadBody>(row).body
    if (status === 'stored' && (await isNeeded(store, row)))
      await store.apply([patchUpload(row, { used_at: used_at ?? clock.now() }, null)])
    else await removeUpload(store, row)
  }
}

/** True while a revision that is served, built or the latest one comes from it. */
async function isNeeded(store: Store, { id, parent }: RecordRow): Promise<boolean> {
  const owner = await store.records.get('deployment', parent)
  if (owner === null) return false
  const path = uploadPath(parent, id)
  const { source_revision_config, serving, rollout, queued } = parseRow<DeploymentBody>(owner).body
  if (source_revision_config.source_tarball_path === path) return true
  const revisions = [serving?.revision_id, rollout?.revision_id, queued].filter(id => typeof id === 'string')
  for (const revision_id of revisions) {
    const row = await store.records.get('revision', revision_id)
    const revision = row === null ? null : parseRow<RevisionBody>(row).body
    if (revision?.source_revision_config.source_tarball_path === path) return true
  }
  return false
}
