/** Assistants: named, configured instances of a graph (API: assistants-crons-store 2). */
import { v5, v7 } from 'uuid'
import { bytesHandler, jsonHandler } from '../../bus/serve.js'
import { ensureConsumer, removeConsumer } from '../../bus/streams.js'
import {
  type Registration,
  type Retirement,
  validateRegistration,
  validateRetirement,
} from '../../schemas/announcements.js'
import { type AssistantCreate, validateAssistantCreate } from '../../schemas/assistants.js'
import { fail } from '../../schemas/errors.js'
import { isUuid, SYSTEM_ASSISTANT_NAMESPACE, token } from '../../schemas/ids.js'
import type { AssistantRow, Store } from '../../store/port.js'
import { shareAnnouncement } from './announcements.js'
import { appOf } from './apps.js'
import type { Deps } from './context.js'
import { assistantText } from './rows/text.js'

/** A name with a lone surrogate has no UTF-8 and so no id of its own; no graph has such a name. */
export const systemAssistantId = (graph_id: string): string => v5(graph_id.toWellFormed(), SYSTEM_ASSISTANT_NAMESPACE)

export const assistants = (deps: Deps) => ({
  create: jsonHandler<AssistantCreate>(validateAssistantCreate, (body, { head }) =>
    create(body, appOf(head), deps.store),
  ),
  get: bytesHandler(async (_, { head }) => {
    const given = head.params?.assistant_id ?? ''
    const row = await find(deps.store, appOf(head), given)
    if (row === null) {
      if (!isUuid(given)) throw fail('invalid', `assistant_id: expected a uuid or the id of a graph, got "${given}"`)
      throw fail('not_found', `Assistant with ID ${given} not found`)
    }
    return { body: assistantText(row) }
  }),
  register: jsonHandler<Registration>(validateRegistration, body => register(body, deps)),
  retire: jsonHandler<Retirement>(validateRetirement, async ({ pool }) => {
    await removeConsumer(deps.link, token('pool', pool))
    return {}
  }),
})

/** By id or by graph id: a graph's own name wins (API: assistants 2.4). Null when neither is known. */
export async function find(store: Store, app: string, given: string): Promise<AssistantRow | null> {
  if (isUuid(given)) {
    const row = await store.assistants.get(app, given.toLowerCase())
    if (row !== null) return row
  }
  return store.assistants.get(app, systemAssistantId(given))
}

async function create(body: AssistantCreate, app: string, store: Store) {
  if ((await store.assistants.get(app, systemAssistantId(body.graph_id))) === null)
    throw fail('not_found', `Graph '${body.graph_id}' not found`)
  const now = Date.now()
  const row: AssistantRow = {
    app,
    assistant_id: (body.assistant_id ?? v7()).toLowerCase(),
    graph_id: body.graph_id,
    name: body.name ?? 'Untitled',
    description: body.description ?? null,
    // Each as it was given; at execution the one that is empty mirrors the other.
    config: JSON.stringify(body.config ?? {}),
    context: JSON.stringify(body.context ?? {}),
    metadata: JSON.stringify(withoutReserved(body.metadata ?? {})),
    version: 1,
    created_at: now,
    updated_at: now,
  }
  if ((await store.apply([{ step: 'assistants.insert', row }])) === -1) return { body: assistantText(row) }
  const stored = await store.assistants.get(app, row.assistant_id)
  if (body.if_exists !== 'do_nothing' || stored === null) throw fail('conflict', 'Assistant already exists')
  return { body: assistantText(stored) }
}

/** `created_by: "system"` marks system assistants; a client cannot forge it. */
const withoutReserved = (metadata: { [key: string]: unknown }) =>
  metadata.created_by === 'system'
    ? Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'created_by'))
    : metadata

/** A graph worker announces itself: its pool's consumer and the system assistants of its graphs exist afterwards. */
async function register({ app, revision, pool, graphs, ttl, item_ttl }: Registration, deps: Deps) {
  const { store, link, ttls, itemTtls } = deps
  await ttls.announce(app, pool, ttl ?? null)
  await itemTtls.announce(app, pool, item_ttl ?? null)
  await ensureConsumer(link, token('pool', pool))
  if (revision !== undefined) return {}
  await ensureSystemAssistants(store, app, graphs)
  await shareAnnouncement(deps, { app, pool, graphs: graphs.map(({ graph_id }) => graph_id) })
  return {}
}

/** One assistant per graph, whose id follows from the graph's. A known one stays: what users made of it is theirs. */
export async function ensureSystemAssistants(store: Store, app: string, graphs: Registration['graphs']): Promise<void> {
  for (const { graph_id, description, config, context } of graphs) {
    const now = Date.now()
    const row: AssistantRow = {
      app,
      assistant_id: systemAssistantId(graph_id),
      graph_id,
      name: graph_id,
      description: description ?? null,
      config: JSON.stringify(config ?? {}),
      context: JSON.stringify(context ?? {}),
      metadata: '{"created_by":"system"}',
      version: 1,
      created_at: now,
      updated_at: now,
    }
    await store.apply([{ step: 'assistants.insert', row }])
  }
}

export const noAssistant = (given: string): string =>
  `No assistant found for "${given}". Make sure the assistant ID is for a valid assistant or a valid graph ID.`
