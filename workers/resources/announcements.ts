/**
 * What graph workers announce reaches one resource worker, and all must know it: it is told to the others at once, and
 * kept in the store for those that are not up. After a start or a lost connection everything is asked for anew.
 */
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { type Announced, validateAnnounced } from '../../schemas/announcements.js'
import { event } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'
import type { Apps } from './apps.js'
import { GRAPH, graphRecordId } from './rows/assistant.js'
import { each, newRecord } from './rows/record.js'

const decoder = new TextDecoder()
const ANNOUNCED = event('graphs', 'announced')

interface Shared {
  store: Store
  link: Link
  apps: Apps
}

/** Knows what is kept when it resolves, and hears what is announced to others until the lifecycle stops it. */
export async function followAnnouncements({ store, link, apps }: Shared, life: Lifecycle): Promise<void> {
  const hearing = link.nc.subscribe(ANNOUNCED, {
    callback(error, message) {
      if (error !== null) return
      const parsed = validateAnnounced(JSON.parse(decoder.decode(message.data)))
      if (!parsed.success) return
      const { app, pool, graphs } = parsed.data
      for (const graph_id of graphs) apps.announce(app, graph_id, pool)
    },
  })
  life.push({ name: 'hearing announcements', quiet: () => hearing.unsubscribe() })
  for await (const { app, body } of each(store, { kind: GRAPH, sort: 'id', order: 'asc' })) {
    const { graph_id, pool } = JSON.parse(body) as { graph_id: string; pool: string }
    apps.remember(app, graph_id, pool)
  }
}

/** Asks every graph worker to announce itself again. */
export const askForAnnouncements = ({ link }: Pick<Shared, 'link'>): void =>
  link.nc.publish(event('resources', 'started'))

/** A graph worker has announced itself here. Kept before it is told, so that nobody knows what a restart would forget. */
export async function shareAnnouncement({ store, link, apps }: Shared, announced: Announced): Promise<void> {
  const { app, pool, graphs } = announced
  for (const graph_id of graphs) {
    const id = graphRecordId(app, graph_id)
    const body = JSON.stringify({ graph_id, pool })
    const known = await store.records.get(GRAPH, id)
    if (known === null) await store.apply([{ step: 'records.insert', row: newRecord(GRAPH, id, { app, body }) }])
    else if (known.body !== body)
      await store.apply([{ step: 'records.patch', kind: GRAPH, id, where: {}, set: { body, updated_at: Date.now() } }])
    apps.announce(app, graph_id, pool)
  }
  link.nc.publish(ANNOUNCED, Buffer.from(JSON.stringify(announced)))
}
