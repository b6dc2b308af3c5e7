/** Uploads in the store: what is kept, what is swept, and a crash between any two steps. */
import { hash, randomBytes } from 'node:crypto'
import t from 'tap'
import { v7 } from 'uuid'
import type { Reply } from '../../../bus/serve.js'
import { PART_BYTES, uploadPath } from '../../../schemas/deploy-calls.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Deps } from '../../../workers/resources/context.js'
import { patchDeployment, redeploy } from '../../../workers/resources/deployments/change.js'
import { createDeployment } from '../../../workers/resources/deployments/create.js'
import { findDeployment, parseRow } from '../../../workers/resources/deployments/row.js'
import { deleteDeployment } from '../../../workers/resources/deployments/stop.js'
import { readPart, sweepUploads, UPLOAD, type UploadBody } from '../../../workers/resources/deployments/upload-rows.js'
import { uploads } from '../../../workers/resources/deployments/uploads.js'
import { each } from '../../../workers/resources/rows/record.js'
import { Crash, type Stepwise, stage, stepwise } from '../stage.js'

t.setTimeout(120_000)

type Handler = { handle(value: unknown, context: object): Promise<Reply> }

const request = (name: string) => ({
  name,
  source: 'internal_source' as const,
  source_config: {},
  source_revision_config: {},
})

/** The edge that uploads to one deployment. */
function edgeOf(deps: Deps, deployment_id: string) {
  const handlers = uploads(deps) as unknown as { [verb: string]: Handler }
  const call = (verb: string, params: object, value: unknown = Buffer.alloc(0), query?: string) =>
    handlers[verb]!.handle(value, { head: { request_id: '', params: { deployment_id, ...params }, query } })
  const edge = {
    call,
    async begin() {
      const { body } = await call('upload_url', {})
      const { pathname, searchParams } = new URL(
        (JSON.parse(body as string) as { upload_url: string }).upload_url,
        'http://x',
      )
      const upload_id = pathname.split('/').at(-1)!
      const begun = await call('upload_begin', { upload_id }, undefined, searchParams.toString())
      const { token } = JSON.parse(begun.body as string) as { token: string }
      return { upload_id, token }
    },
    async upload(parts: readonly Buffer[]) {
      const { upload_id, token } = await edge.begin()
      for (const [part, bytes] of parts.entries())
        await call('upload_part', { upload_id, token, part: `${part}` }, bytes)
      const whole = Buffer.concat(parts)
      const end = { size: whole.length, sha256: hash('sha256', whole), parts: parts.length }
      await call('upload_end', { upload_id, token }, end)
      return { upload_id, path: uploadPath(deployment_id, upload_id) }
    },
    revise: (path: string) =>
      patchDeployment(
        deps,
        deployment_id,
        { source_revision_config: { source_tarball_path: path, graph_config_path: 'langgraph.json' } },
        '',
        '',
      ),
  }
  return edge
}

const all = async (store: Store, kind: string): Promise<RecordRow[]> => {
  const rows: RecordRow[] = []
  for await (const row of each(store, { kind })) rows.push(row)
  return rows
}

/** Sweeps as if an hour had passed. */
async function sweepLater(store: Store): Promise<void> {
  for (const { id, due_at } of await all(store, UPLOAD))
    if (due_at !== null)
      await store.apply([{ step: 'records.patch', kind: UPLOAD, id, where: {}, set: { due_at: Date.now() - 1 } }])
  await sweepUploads(store)
}

const PARTS = [randomBytes(PART_BYTES), randomBytes(1_000)]

t.test('the bytes are those that were sent; a repeated part changes nothing', async t => {
  const { store, all: workers } = await stage(t, 1)
  const deps = workers[0]!
  const { id } = await createDeployment(deps, request('bytes'))
  const edge = edgeOf(deps, id)
  const { upload_id, token } = await edge.begin()
  const send = (part: number, bytes: Buffer) => edge.call('upload_part', { upload_id, token, part: `${part}` }, bytes)
  await send(0, PARTS[0]!)
  await send(0, randomBytes(10))
  await send(1, PARTS[1]!)
  t.same(await readPart(store, upload_id, 0), PARTS[0])
  t.same(await readPart(store, upload_id, 1), PARTS[1])
  await t.rejects(edge.call('upload_part', { upload_id, token: 'x', part: '2' }, PARTS[1]), { code: 'not_found' })
  await t.rejects(send(2, randomBytes(PART_BYTES + 1)), { code: 'bad_request' })
  await t.rejects(send(1_000_000, PARTS[1]!), { code: 'too_large' })
  await t.rejects(send(-1, PARTS[1]!), { code: 'bad_request' })
  const end = { size: PART_BYTES + 1_000, sha256: 'a'.repeat(64), parts: 3 }
  await t.rejects(edge.call('upload_end', { upload_id, token }, end), { code: 'conflict' })
  await edge.call('upload_end', { upload_id, token }, { ...end, parts: 2 })
  await t.rejects(send(2, PARTS[1]!), { code: 'not_found' }, 'it is complete')
  await t.rejects(edge.call('upload_abort', { upload_id, token }), { code: 'not_found' })
})

t.test('uploads that revisions use stay, others are swept', async t => {
  const { store, all: workers } = await stage(t, 1)
  const deps = workers[0]!
  const { id } = await createDeployment(deps, request('swept'))
  const edge = edgeOf(deps, id)
  const used = await edge.upload(PARTS)
  await edge.revise(used.path)
  const unused = await edge.upload(PARTS)
  await edge.begin()
  await sweepUploads(store)
  t.equal((await all(store, UPLOAD)).length, 3, 'not yet')
  await sweepLater(store)
  t.same(
    (await all(store, UPLOAD)).map(row => row.id),
    [used.upload_id],
  )
  t.equal((await all(store, 'upload_part')).length, PARTS.length)
  await t.rejects(edge.revise(unused.path), { code: 'bad_request', message: /names no upload/ })

  const first = (await findDeployment(store, id))!.body.latest!
  for (let i = 0; i < 12; i++) await edge.revise((await edge.upload([PARTS[1]!])).path)
  await sweepLater(store)
  const kept = await all(store, UPLOAD)
  // The first one is the rollout still: no deploy worker has taken it.
  t.equal(kept.length, 11)
  t.ok(kept.some(row => row.id === used.upload_id))
  t.equal((await all(store, 'upload_part')).length, 10 + PARTS.length)
  await t.rejects(redeploy(deps, id, first), { code: 'bad_request' }, 'it has not ended')

  await deleteDeployment(deps, id, true)
  t.same(await all(store, UPLOAD), [])
  t.same(await all(store, 'upload_part'), [])
})

t.test('a crash between any two steps', async t => {
  const { store, all: workers } = await stage(t, 1, store => stepwise(store))
  const deps = workers[0]!
  const dying = deps.store as Stepwise
  let crashes = 0
  for (let steps = 0; ; steps++) {
    const { id } = await createDeployment(deps, request(`n${v7()}`))
    const edge = edgeOf(deps, id)
    dying.crashAfter(steps)
    let isDone = false
    try {
      await edge.revise((await edge.upload(PARTS)).path)
      await edge.revise((await edge.upload(PARTS)).path)
      isDone = true
    } catch (error) {
      if (!(error instanceof Crash)) throw error
      crashes++
    }
    dying.crashAfter(Number.POSITIVE_INFINITY)
    await sweepLater(store)
    const { body } = (await findDeployment(store, id))!
    const mine = (await all(store, UPLOAD)).filter(row => row.parent === id)
    const latest = body.source_revision_config.source_tarball_path
    if (latest && !mine.some(row => uploadPath(id, row.id) === latest)) t.fail(`${steps}: the latest upload is gone`)
    for (const row of mine) {
      const { status, parts } = parseRow<UploadBody>(row).body
      if (status !== 'stored' || row.due_at !== null) t.fail(`${steps}: an upload that no revision uses is left`)
      for (let part = 0; part < parts; part++)
        if ((await readPart(store, row.id, part)) === null) t.fail(`${steps}: a part is missing`)
    }
    dying.crashAfter(steps)
    await deleteDeployment(deps, id, true).catch(error => {
      if (!(error instanceof Crash)) throw error
    })
    dying.crashAfter(Number.POSITIVE_INFINITY)
    // The next claim of a deploy worker does the same.
    if ((await findDeployment(store, id)) !== null) {
      const { removeDeployment } = await import('../../../workers/resources/deployments/write.js')
      await removeDeployment(deps, (await findDeployment(store, id))!)
    }
    await sweepLater(store)
    t.same(await all(store, UPLOAD), [], `${steps}: nothing is left`)
    t.same(await all(store, 'upload_part'), [])
    if (isDone) break
  }
  t.ok(crashes > 15, `${crashes} crashes`)
})
