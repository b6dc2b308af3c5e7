/**
 * Versions of assistants (API: assistants-crons-store 2.3): each patch makes one, whose number is greater than all
 * before it; `latest` makes an earlier one the active one without a new number.
 */
import type { AssistantPatch, VersionSearch } from '../../../schemas/assistants.js'
import { contains } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { merge } from '../../../schemas/json.js'
import type { AssistantRow, AssistantVersionRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { checkGraph, versionOf } from '../rows/assistant.js'
import { checkTemplate, metadataText } from '../rows/limits.js'
import { pages } from '../rows/pages.js'
import { withoutReserved } from './create.js'

const TRIES = 50
const PAGE = 200

/** Metadata is merged; config and context replace the whole previous value; what is absent stays. */
export async function patchAssistant(deps: Deps, found: AssistantRow, body: AssistantPatch): Promise<AssistantRow> {
  const { store } = deps
  const { app, assistant_id } = found
  if (body.graph_id) await checkGraph(store, app, body.graph_id)
  return changed(deps, found, async row => {
    const [newest] = await store.assistants.versions(app, assistant_id, 1)
    const metadata = body.metadata
      ? metadataText(merge(JSON.parse(row.metadata), withoutReserved(body.metadata)))
      : row.metadata
    const next: AssistantRow = {
      ...row,
      graph_id: body.graph_id ?? row.graph_id,
      name: body.name ?? row.name,
      description: body.description ?? row.description,
      config: body.config ? JSON.stringify(body.config) : row.config,
      context: body.context ? JSON.stringify(body.context) : row.context,
      metadata,
      version: Math.max(newest?.version ?? 0, row.version) + 1,
      updated_at: later(row),
    }
    checkTemplate('assistant', next.config, next.context, next.metadata)
    const where = { updated_at: row.updated_at }
    const failed = await store.apply([
      { step: 'versions.insert', row: versionOf(next) },
      { step: 'assistants.patch', app, assistant_id, where, set: next },
    ])
    // The version belongs to nobody: another patch came between.
    if (failed === 1) await store.apply([{ step: 'versions.remove', app, assistant_id, version: next.version }])
    return failed === -1 ? next : null
  })
}

/** Copies everything of the version onto the assistant. Throws `not_found` when there is no such version. */
export async function setLatest(deps: Deps, found: AssistantRow, version: number): Promise<AssistantRow> {
  const { store } = deps
  const { app, assistant_id } = found
  const stored = await store.assistants.version(app, assistant_id, version)
  if (stored === null) throw fail('not_found', `Version ${version} of assistant ${assistant_id} not found`)
  return changed(deps, found, async row => {
    const next: AssistantRow = { ...stored, created_at: row.created_at, updated_at: later(row) }
    const where = { updated_at: row.updated_at }
    const failed = await store.apply([{ step: 'assistants.patch', app, assistant_id, where, set: next }])
    return failed === -1 ? next : null
  })
}

/** Applies a change to the row as it is stored, again when another change came first. */
async function changed(
  { store, serialize }: Deps,
  found: AssistantRow,
  change: (row: AssistantRow) => Promise<AssistantRow | null>,
): Promise<AssistantRow> {
  const { app, assistant_id } = found
  // Within one worker one after the other, so that the numbers have no gaps; the condition decides between workers.
  return serialize(`${app} ${assistant_id}`, async () => {
    for (let i = 0; i < TRIES; i++) {
      const row = await store.assistants.get(app, assistant_id)
      if (row === null) throw fail('not_found', `Assistant with ID ${assistant_id} not found`)
      const next = await change(row)
      if (next !== null) return next
    }
    throw fail('unavailable', 'Too many requests change this assistant at once')
  })
}

/** The time of a write tells it from the one before. */
const later = ({ updated_at }: AssistantRow): number => Math.max(Date.now(), updated_at + 1)

/** Newest first; `metadata` is that of the version. */
export async function searchVersions(
  { store }: Deps,
  { app, assistant_id }: AssistantRow,
  { limit, offset, metadata }: VersionSearch,
): Promise<AssistantVersionRow[]> {
  const end = (offset ?? 0) + (limit ?? 10)
  const found: AssistantVersionRow[] = []
  const read = (after: AssistantVersionRow | undefined) =>
    store.assistants.versions(app, assistant_id, PAGE, after?.version)
  for await (const page of pages(read, PAGE)) {
    for (const row of page) if (!metadata || contains(JSON.parse(row.metadata), metadata)) found.push(row)
    if (found.length >= end) break
  }
  return found.slice(offset ?? 0, end)
}
