/** A graph worker announces itself: its pool's consumer and the system assistants of its graphs exist afterwards. */
import { isDeepStrictEqual } from 'node:util'
import { ensureConsumer } from '../../../bus/streams.js'
import type { Registration } from '../../../schemas/announcements.js'
import { revisionOfPool } from '../../../schemas/deploy-calls.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import type { Sender } from '../../../schemas/subjects.js'
import type { Store } from '../../../store/port.js'
import { passOn, shareAnnouncement } from '../announcements.js'
import { isPool } from '../apps.js'
import type { Deps } from '../context.js'
import { sealWebhooks } from '../keys/webhook-settings.js'
import { LOAD_ERROR } from '../rows/assistant.js'
import { newRecord } from '../rows/record.js'
import { acceptBuild } from '../skew.js'
import { ensureSystemAssistants } from './system.js'

export async function register(registration: Registration, sender: Sender, deps: Deps) {
  const {
    app,
    revision,
    pool,
    graphs,
    failed = [],
    libraries,
    auth = false,
    app_host,
    ttl,
    item_ttl,
    item_index,
    app_store = false,
    app_checkpointer,
    encryption,
    http,
    webhooks,
  } = registration
  const { store, link } = deps
  if (app !== sender.app || pool !== sender.pool)
    throw fail('forbidden', `A graph worker of ${sender.app} in pool ${sender.pool} announces no other`)
  acceptBuild(link, `the graph worker of pool ${pool}`, registration.weft)
  await checkRevision(deps, registration)
  // First: nothing of the application is stored before.
  if (encryption) await deps.encryption.turnOn()
  await deps.settings.announce(app, pool, {
    encryption: encryption ? { ...encryption, pool } : null,
    thread_ttl: ttl ?? null,
    item_ttl: item_ttl ?? null,
    item_index: item_index ? { ...item_index, pool } : null,
    app_store: app_store ? { pool } : null,
    app_checkpointer: app_checkpointer ? { pool, graph_id: app_checkpointer } : null,
    app_http: http ?? null,
    app_host: app_host ?? null,
    app_webhooks: webhooks ? await sealWebhooks(deps, app, pool, webhooks, revision === undefined) : null,
  })
  await ensureConsumer(link, token('pool', pool))
  const announced = {
    app,
    pool,
    auth,
    // Also by a key of the server: workers that started before learn it.
    encryption: encryption != null || deps.encryption.isOn(),
    ...(libraries === undefined ? {} : { libraries }),
  }
  if (revision !== undefined) passOn(deps, { ...announced, graphs: [] })
  else {
    await ensureSystemAssistants(deps.encryption.plain, app, graphs)
    await storeLoadErrors(store, app, pool, failed)
    await shareAnnouncement(deps, { ...announced, graphs: graphs.map(({ graph_id }) => graph_id) })
  }
  await deps.slots.welcome(token('pool', pool))
  return {}
}

/**
 * Else a worker could take over the runs of a deployment by announcing its graphs. Throws conflict unless a deployment is
 * announced by the pool of a revision of its own, and anything else without a revision.
 */
async function checkRevision(deps: Deps, { app, revision, pool }: Registration): Promise<void> {
  if (revisionOfPool(pool) !== (revision ?? null) || !(await isPool(deps, { app, pool })))
    throw fail('conflict', `The application ${app} is announced by workers of a revision of its deployment only`)
}

/** Replaces the load errors of the pool. */
async function storeLoadErrors(
  store: Store,
  app: string,
  pool: string,
  failed: NonNullable<Registration['failed']>,
): Promise<void> {
  const parent = JSON.stringify([app, pool])
  const rows = failed.map(({ graph_id, error }) =>
    newRecord(LOAD_ERROR, JSON.stringify([app, pool, graph_id]), {
      app,
      parent,
      body: JSON.stringify({ graph_id, error }),
    }),
  )
  const stored = await store.records.list({ kind: LOAD_ERROR, parent, limit: 1_000 })
  const bodies = (all: readonly { body: string }[]) => all.map(({ body }) => body).sort()
  if (isDeepStrictEqual(bodies(stored), bodies(rows))) return
  await store.apply([{ step: 'records.clear', kind: LOAD_ERROR, parent }])
  // Inserted one by one: another worker of the pool may announce the same.
  for (const row of rows) await store.apply([{ step: 'records.insert', row }])
}
