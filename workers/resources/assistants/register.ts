/** A graph worker announces itself: its pool's consumer and the system assistants of its graphs exist afterwards. */
import { ensureConsumer } from '../../../bus/streams.js'
import type { Registration } from '../../../schemas/announcements.js'
import { token } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import { shareAnnouncement } from '../announcements.js'
import type { Deps } from '../context.js'
import { insertSteps, newAssistant, systemAssistantId } from '../rows/assistant.js'

export async function register({ app, revision, pool, graphs, ttl, item_ttl }: Registration, deps: Deps) {
  const { store, link, ttls, itemTtls } = deps
  await ttls.announce(app, pool, ttl ?? null)
  await itemTtls.announce(app, pool, item_ttl ?? null)
  await ensureConsumer(link, token('pool', pool))
  if (revision !== undefined) return {}
  await ensureSystemAssistants(store, app, graphs)
  await shareAnnouncement(deps, { app, pool, graphs: graphs.map(({ graph_id }) => graph_id) })
  return {}
}

/** One assistant per graph, whose id follows from the graph's. A stored one stays: what users made of it is theirs. */
export async function ensureSystemAssistants(store: Store, app: string, graphs: Registration['graphs']): Promise<void> {
  for (const { graph_id, description, config, context } of graphs) {
    const assistant_id = systemAssistantId(graph_id)
    if ((await store.assistants.get(app, assistant_id)) !== null) continue
    const row = newAssistant({
      app,
      assistant_id,
      graph_id,
      name: graph_id,
      description: description ?? null,
      config: JSON.stringify(config ?? {}),
      context: JSON.stringify(context ?? {}),
      metadata: '{"created_by":"system"}',
    })
    if ((await store.apply(insertSteps(row))) === -1) continue
    // Another worker was faster, or a crash left versions without their assistant.
    if ((await store.assistants.get(app, assistant_id)) === null)
      await store.apply([{ step: 'assistants.remove', app, assistant_id }, ...insertSteps(row)])
  }
}
