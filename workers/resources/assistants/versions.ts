/**
 * Versions of assistants (docs/spec/assistants.md#versions): each patch makes one, whose number is greater than all
 * before it; `latest` makes an earlier one the active one without a new number.
 *
 * The first patch also stores the version before it. Until then the row of the assistant is its only version, and a
 * create writes one row. (Measured: a row of the version takes 17 of 37 µs of the insert in SQLite.)
 */
import type { AssistantPatch, VersionSearch } from '../../../schemas/assistants.js'
import { contains } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { merge } from '../../../schemas/json.js'
import type { Store } from '../../../store/port.js'
import type { AssistantRow, AssistantVersionRow } from '../../../store/rows/assistants.js'
import type { Step } from '../../../store/steps.js'
import { type Access, sees } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { checkGraph, versionOf } from '../rows/assistant.js'
import { checkConfig, checkContext, checkTemplate, metadataText } from '../rows/limits.js'
import { pages } from '../rows/pages.js'
import { withoutReserved } from './create.js'

const TRIES = 50
const PAGE = 200

/** Metadata is merged; config and context replace the whole previous value; what is absent stays. */
export async function patchAssistant(deps: Deps, found: AssistantRow, body: AssistantPatch): Promise<AssistantRow> {
  const { store } = deps
  const { app, assistant_id } = found
  checkContext(body)
  if (body.graph_id) await checkGraph(store, app, body.graph_id)
  return changed(deps, found, async row => {
    const [newest] = await store.assistants.versions(app, assistant_id, 1)
    const metadata = body.metadata
      ? metadataText(merge(parseJson(row.metadata), withoutReserved(body.metadata)))
      : row.metadata
    const next: AssistantRow = {
      ...row,
      graph_id: body.graph_id ?? row.graph_id,
      name: body.name ?? row.name,
      description: body.description ?? row.description,
      config: body.config ? jsonText(body.config) : row.config,
      context: body.context ? jsonText(body.context) : row.context,
      metadata,
      version: Math.max(newest?.version ?? 0, row.version) + 1,
      updated_at: later(row),
    }
    checkConfig(body)
    checkTemplate('assistant', next.config, next.context, next.metadata)
    const where = { updated_at: row.updated_at }
    const steps: Step[] = [
      ...(await currentVersionSteps(store, row)),
      { step: 'versions.insert', row: versionOf(next) },
      { step: 'assistants.patch', app, assistant_id, where, set: next },
    ]
    const failed = await store.apply(steps)
    // Another patch came first: no assistant has this version.
    if (failed === steps.length - 1)
      await store.apply([{ step: 'versions.remove', app, assistant_id, version: next.version }])
    return failed === -1 ? next : null
  })
}

/** Copies everything of the version onto the assistant. Throws `not_found` when there is no such version. */
export async function setLatest(
  deps: Deps,
  access: Access,
  found: AssistantRow,
  version: number,
): Promise<AssistantRow> {
  const { store } = deps
  const { app, assistant_id } = found
  const stored =
    version === found.version ? versionOf(found) : await store.assistants.version(app, assistant_id, version)
  if (stored === null || !isVersionOf(found, stored) || !sees(access, stored.metadata))
    throw fail('not_found', `Version ${version} of assistant ${assistant_id} not found`)
  return changed(deps, found, async row => {
    const next: AssistantRow = { ...stored, created_at: row.created_at, updated_at: later(row) }
    const where = { updated_at: row.updated_at }
    const failed = await store.apply([{ step: 'assistants.patch', app, assistant_id, where, set: next }])
    return failed === -1 ? next : null
  })
}

/** The steps that store the version that the assistant is now, unless it is stored. */
async function currentVersionSteps(store: Store, row: AssistantRow): Promise<Step[]> {
  const { app, assistant_id, version } = row
  const stored = await store.assistants.version(app, assistant_id, version)
  if (stored !== null && isVersionOf(row, stored)) return []
  const insert: Step = { step: 'versions.insert', row: versionOf(row) }
  return stored === null ? [insert] : [{ step: 'versions.remove', app, assistant_id, version }, insert]
}

/** A patch that lost against a delete can leave a version behind; an assistant created later has the same id. */
const isVersionOf = ({ created_at }: AssistantRow, version: AssistantVersionRow): boolean =>
  version.created_at >= created_at

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
const later = ({ updated_at }: AssistantRow): number => Math.max(clock.now(), updated_at + 1)

/** Newest first; `metadata` is that of the version. */
export async function searchVersions(
  { store }: Deps,
  access: Access,
  row: AssistantRow,
  { limit, offset, metadata }: VersionSearch,
): Promise<AssistantVersionRow[]> {
  const { app, assistant_id } = row
  const end = (offset ?? 0) + (limit ?? 10)
  const found: AssistantVersionRow[] = []
  const read = (after: AssistantVersionRow | undefined) =>
    store.assistants.versions(app, assistant_id, PAGE, after?.version)
  const take = (version: AssistantVersionRow) => {
    if (metadata && !contains(parseJson(version.metadata), metadata)) return
    if (sees(access, version.metadata)) found.push(version)
  }
  let stored = 0
  for await (const page of pages(read, PAGE)) {
    const own = page.filter(version => isVersionOf(row, version))
    own.forEach(take)
    stored += own.length
    if (found.length >= end) break
  }
  if (stored === 0) take(versionOf(row))
  return found.slice(offset ?? 0, end)
}
