/**
 * The system assistants of an application (docs/spec/assistants.md#system-assistants): one per graph, whose id
 * follows from the graph's. A stored one stays as users made it, until langgraph.json gives its graph another
 * description: then name and description are taken over again. The config is that of the first announcement.
 */
import type { Registration } from '../../../schemas/announcements.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import { newAssistant, systemAssistantId } from '../rows/assistant.js'
import { newRecord } from '../rows/record.js'

/** The records of the descriptions as they were announced last. */
const DESCRIPTION = 'graph_description'

/** All graphs at once: one after the other they took longer than a registration may on a busy database. */
export async function ensureSystemAssistants(store: Store, app: string, graphs: Registration['graphs']): Promise<void> {
  const ensure = async ({ graph_id, description = null, config, context }: Registration['graphs'][number]) => {
    const assistant_id = systemAssistantId(graph_id)
    const id = jsonText([app, graph_id])
    const announced = await store.records.get(DESCRIPTION, id)
    const isChanged = announced !== null && parseJson(announced.body) !== description
    const row = newAssistant({
      app,
      assistant_id,
      graph_id,
      name: graph_id,
      description,
      config: jsonText(config ?? {}),
      context: jsonText(context ?? {}),
      metadata: '{"created_by":"system"}',
    })
    const known = await store.assistants.get(app, assistant_id)
    // The insert fails when another worker was faster.
    if (known === null) await store.apply([{ step: 'assistants.insert', row }])
    else if (isChanged && known.graph_id === graph_id) await rename(store, app, assistant_id, graph_id, description)
    // Written last: a worker that ends before repeats the change.
    await remember(store, newRecord(DESCRIPTION, id, { app, body: jsonText(description) }), announced)
  }
  await Promise.all(graphs.map(ensure))
}

async function rename(
  store: Store,
  app: string,
  assistant_id: string,
  name: string,
  description: string | null,
): Promise<void> {
  for (;;) {
    const row = await store.assistants.get(app, assistant_id)
    if (row === null || (row.name === name && row.description === description)) return
    const updated_at = Math.max(clock.now(), row.updated_at + 1)
    const where = { updated_at: row.updated_at }
    const set = { name, description, updated_at }
    if ((await store.apply([{ step: 'assistants.patch', app, assistant_id, where, set }])) === -1) return
  }
}

async function remember(store: Store, row: RecordRow, stored: RecordRow | null): Promise<void> {
  if (stored?.body === row.body) return
  const { kind, id, body, updated_at } = row
  if (stored === null) await store.apply([{ step: 'records.insert', row }])
  else await store.apply([{ step: 'records.patch', kind, id, where: {}, set: { body, updated_at } }])
}
