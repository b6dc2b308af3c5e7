/** Creating an assistant (docs/spec/assistants.md#routes). */

import { v7 } from 'uuid'
import type { AssistantCreate } from '../../../schemas/assistants.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { canonicalId } from '../../../schemas/ids.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import { type Access, sees } from '../access.js'
import type { Deps } from '../context.js'
import { checkGraph, newAssistant } from '../rows/assistant.js'
import { checkConfig, checkContext, checkTemplate, metadataText } from '../rows/limits.js'

/** The new assistant, or with `if_exists=do_nothing` the stored one, unchanged. Throws `not_found` and `conflict`. */
export async function createAssistant({ store }: Deps, access: Access, body: AssistantCreate): Promise<AssistantRow> {
  const { app } = access
  checkContext(body)
  await checkGraph(store, app, body.graph_id)
  const row = newAssistant({
    app,
    assistant_id: canonicalId(body.assistant_id ?? v7()),
    graph_id: body.graph_id,
    name: body.name ?? 'Untitled',
    description: body.description ?? null,
    // Each as it was given; at execution the one that is empty mirrors the other.
    config: jsonText(body.config ?? {}),
    context: jsonText(body.context ?? {}),
    metadata: metadataText(withoutReserved(body.metadata ?? {})),
  })
  checkConfig(body)
  checkTemplate('assistant', row.config, row.context, row.metadata)
  if ((await store.apply([{ step: 'assistants.insert', row }])) === -1) return row
  const stored = await store.assistants.get(app, row.assistant_id)
  if (body.if_exists !== 'do_nothing' || stored === null || !sees(access, stored.metadata))
    throw fail('conflict', 'Assistant already exists')
  return stored
}

/** `created_by: "system"` marks system assistants; a client cannot forge it. */
export const withoutReserved = (metadata: JsonObject): JsonObject =>
  metadata.created_by === 'system'
    ? Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'created_by'))
    : metadata
