/**
 * Uploads of sources (decision 054). A URL is signed for one upload of one deployment until it expires; nothing is stored
 * for it. The PUT that uses it first has it: the bytes of an upload never change. Edges send its parts here, and deploy
 * workers read them. An upload that breaks off is removed by its edge, or by the sweep when that died.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { v7 } from 'uuid'
import { bytesHandler, jsonHandler, type Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import {
  PART_BYTES,
  PART_MS,
  type SourceAsk,
  type SourceOf,
  type SourcePartAsk,
  type UploadBegun,
  type UploadEnd,
  uploadPath,
  validateSourceAsk,
  validateSourcePartAsk,
  validateUploadEnd,
} from '../../../schemas/deploy-calls.js'
import { fail } from '../../../schemas/errors.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { pathIds } from '../query.js'
import { newRecord } from '../rows/record.js'
import { deploymentOf, parseRow, type RevisionBody, revisionOf } from './row.js'
import { checkHeld, forDeployers } from './tasks.js'
import {
  findUpload,
  insertPart,
  patchUpload,
  readPart,
  removeUpload,
  UNUSED_MS,
  UPLOAD,
  type UploadBody,
  uploadsOf,
} from './upload-rows.js'

const EXPIRES_S = 15 * 60
/** Uploads of a deployment that are being received, or that no revision uses. */
const MAX_UNUSED = 8
const TRIES = 5

export const uploads = (deps: Deps) => ({
  upload_url: bytesHandler(async (_, { head }) => {
    const [id] = pathIds(head.params, 'deployment_id')
    const deployment_id = await checkDeployment(deps, id!)
    const upload_id = v7()
    const expires = Math.floor(clock.now() / 1_000) + EXPIRES_S
    const [signature] = signaturesOf(deps, deployment_id, upload_id, `${expires}`)
    const path = `/v2/deployments/${deployment_id}/uploads/${upload_id}?expires=${expires}&signature=${signature}`
    return json({
      upload_url: `${head.origin ?? ''}${path}`,
      object_path: uploadPath(deployment_id, upload_id),
      upload_headers: { 'Content-Type': 'application/gzip' },
    })
  }),
  push_token: bytesHandler(async (_, { head }) => {
    const [id] = pathIds(head.params, 'deployment_id')
    await deploymentOf(deps.store, id!)
    throw fail('bad_request', NO_REGISTRY)
  }),
  upload_begin: bytesHandler(async (_, { head }) => {
    const [given, upload_id] = pathIds(head.params, 'deployment_id', 'upload_id')
    checkSignature(deps, given!, upload_id!, head.query)
    const deployment_id = await checkDeployment(deps, given!)
    const token = randomBytes(16).toString('hex')
    const body: UploadBody = { status: 'receiving', token, parts: 0, size: 0, sha256: '', used_at: null }
    const row = newRecord(UPLOAD, upload_id!, {
      parent: deployment_id,
      body: JSON.stringify(body),
      due_at: clock.now() + PART_MS,
    })
    if ((await deps.store.apply([{ step: 'records.insert', row }])) !== -1)
      throw fail('conflict', 'This URL was used already: POST …/upload-url gives another one')
    return json<UploadBegun>({ token })
  }),
  upload_part: bytesHandler(async (bytes, { head }) => {
    const part = Number(head.params?.part)
    if (!Number.isSafeInteger(part) || part < 0 || bytes.length === 0 || bytes.length > PART_BYTES)
      throw fail('bad_request', `A part has 1 to ${PART_BYTES} bytes and a number`)
    if (part * PART_BYTES + bytes.length > deps.config.upload_mb * 1024 ** 2) throw fail('too_large')
    for (let i = 0; i < TRIES; i++) {
      const row = await attemptOf(deps, head)
      const { parts } = parseRow<UploadBody>(row).body
      const grown = patchUpload(row, { parts: Math.max(parts, part + 1) }, clock.now() + PART_MS)
      // 1: the part is stored already, and this is a repeated call.
      if ((await deps.store.apply([grown, insertPart(row.id, part, bytes)])) !== 0) return { body: '{}' }
    }
    throw fail('unavailable', 'The upload has too many concurrent calls')
  }),
  upload_end: jsonHandler<UploadEnd>(validateUploadEnd, async (end, { head }) => {
    const row = await attemptOf(deps, head, ['receiving', 'stored'])
    const { status, parts } = parseRow<UploadBody>(row).body
    if (parts !== end.parts) throw fail('conflict', 'The upload has another number of parts')
    if (status === 'stored') return { body: '{}' }
    const failed = await deps.store.apply([patchUpload(row, { ...end, status: 'stored' }, clock.now() + UNUSED_MS)])
    if (failed !== -1) throw fail('not_found', GONE)
    return { body: '{}' }
  }),
  upload_abort: bytesHandler(async (_, { head }) => {
    await removeUpload(deps.store, await attemptOf(deps, head))
    return { body: '{}' }
  }),
  source: forDeployers<SourceAsk>(validateSourceAsk, async ask => {
    const { size, sha256, parts } = parseRow<UploadBody>(await uploadOfTask(deps, ask)).body
    return json<SourceOf>({ size, sha256, parts })
  }),
  source_part: forDeployers<SourcePartAsk>(validateSourcePartAsk, async ask => {
    const { id } = await uploadOfTask(deps, ask)
    const body = await readPart(deps.store, id, ask.part)
    if (body === null) throw fail('not_found', GONE)
    return { body }
  }),
})

const json = <T>(value: T): Reply => ({ body: JSON.stringify(value) })
const GONE = 'The upload is no longer stored'

/** Its id, when it takes an upload now. */
async function checkDeployment(deps: Deps, given: string): Promise<string> {
  const { id, body } = await deploymentOf(deps.store, given)
  if (body.source !== 'internal_source')
    throw fail('bad_request', `Uploads are only available for 'internal_source' source deployments, not ${body.source}`)
  if (body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
  const unused = (await uploadsOf(deps.store, id)).filter(({ due_at }) => due_at !== null)
  if (unused.length >= MAX_UNUSED)
    throw fail('too_many', `The deployment has ${MAX_UNUSED} uploads that no revision uses; they are kept for an hour`)
  return id
}

/** `langgraph deploy` knows the first words, and says that the deployment is not of its kind. */
const NO_REGISTRY =
  "Push tokens are only available for 'internal_docker' source deployments, and this server has no registry: push the image to one of yours (langgraph deploy --push-to), or upload the source (--remote)"

/** With each key of the ring, the one that signs first. */
const signaturesOf = ({ ring }: Deps, deployment_id: string, upload_id: string, expires: string): string[] =>
  ring.prints(`upload ${deployment_id} ${upload_id} ${expires}`)

function checkSignature(deps: Deps, deployment_id: string, upload_id: string, text: string | undefined): void {
  const query = new URLSearchParams(text)
  const expires = query.get('expires') ?? ''
  const signature = Buffer.from(query.get('signature') ?? '')
  const isSigned = signaturesOf(deps, deployment_id, upload_id, expires).some(one => {
    const expected = Buffer.from(one)
    return expected.length === signature.length && timingSafeEqual(expected, signature)
  })
  if (!isSigned) throw fail('forbidden', 'The signature is not that of this URL: POST …/upload-url gives one')
  if (Number(expires) * 1_000 < clock.now())
    throw fail('forbidden', 'This URL has expired: POST …/upload-url gives another one')
}

/** The upload whose attempt the call belongs to. Throws not_found. */
async function attemptOf(
  { store }: Deps,
  { params = {} }: CallHead,
  statuses: readonly UploadBody['status'][] = ['receiving'],
): Promise<RecordRow> {
  const row = await store.records.get(UPLOAD, params.upload_id ?? '')
  const body = row === null ? null : parseRow<UploadBody>(row).body
  if (row === null || body === null || body.token !== params.token || !statuses.includes(body.status))
    throw fail('not_found', GONE)
  return row
}

/** The upload that the revision of a task is made of. Throws fenced, or not_found. */
async function uploadOfTask({ store }: Deps, ask: SourceAsk): Promise<RecordRow> {
  const deployment = await deploymentOf(store, ask.deployment_id)
  checkHeld(deployment, ask)
  const { body } = await revisionOf(store, deployment, ask.revision_id)
  const row = await findUpload(store, deployment.id, pathOf(body))
  if (row === null) throw fail('not_found', 'its upload is no longer stored; deploy it again from the source')
  return row
}

const pathOf = ({ source_revision_config }: RevisionBody): string => source_revision_config.source_tarball_path ?? ''
