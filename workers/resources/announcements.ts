/**
 * Announcements of graph workers. One resource worker receives each and forwards it to the others at once; the store
 * keeps it for those that are not running. After a start or a lost connection a worker asks for all of them again.
 */
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { type Announced, validateAnnounced } from '../../schemas/announcements.js'
import { jsonText } from '../../schemas/exact.js'
import { type Pool, token } from '../../schemas/ids.js'
import { event } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'
import type { Apps } from './apps.js'
import { clock } from './clock.js'
import type { AppSettings } from './rows/app-settings.js'
import { GRAPH, graphRecordId } from './rows/assistant.js'
import { each, newRecord } from './rows/record.js'

const decoder = new TextDecoder()
const ANNOUNCED = event('graphs', 'announced')

interface Shared {
  store: Store
  link: Link
  apps: Apps
}

interface Followed extends Shared {
  slots: { welcome(pool: Pool): Promise<void> }
  encryption: { on(): void }
  settings: Pick<AppSettings, 'forget'>
}

/** Loads the stored announcements, then follows those that other workers receive, until the lifecycle stops it. */
export async function followAnnouncements(
  { store, link, apps, slots, encryption, settings }: Followed,
  life: Lifecycle,
): Promise<void> {
  const subscription = link.subscribe(ANNOUNCED, message => {
    const parsed = validateAnnounced(JSON.parse(decoder.decode(message.data)))
    if (!parsed.success) return
    const { app, pool, graphs, libraries, auth = false } = parsed.data
    if (parsed.data.encryption) encryption.on()
    settings.forget(app)
    apps.setGuarded(app, pool, auth)
    for (const graph_id of graphs) apps.announce(app, graph_id, pool)
    if (graphs.length > 0) apps.setAnnounced(pool, { app, graphs })
    if (libraries !== undefined) apps.setLibraries(app, pool, libraries)
    void slots.welcome(token('pool', pool))
  })
  life.push({ name: 'announcements', quiet: () => subscription.unsubscribe() })
  for await (const { app, body } of each(store, { kind: GRAPH, sort: 'id', order: 'asc' })) {
    const { graph_id, pool } = JSON.parse(body) as { graph_id: string; pool: string }
    apps.remember(app, graph_id, pool)
  }
}

/** Asks every graph worker to announce itself again. */
export const askForAnnouncements = ({ link }: Pick<Shared, 'link'>): void =>
  link.nc.publish(event('resources', 'started'))

/** Handles an announcement that this worker received. Stored before it is forwarded, so that a restart loses none. */
export async function shareAnnouncement({ store, link, apps }: Shared, announced: Announced): Promise<void> {
  const { app, pool, graphs } = announced
  const before = apps.announcedFor(pool)
  // A graph worker that was restarted with a changed application, or two applications in one pool: half of the runs fail.
  if (before !== null && (before.app !== app || `${[...before.graphs].sort()}` !== `${[...graphs].sort()}`))
    link.log.warn({ pool, app, graphs, before }, 'graph workers of one pool announce different graphs')
  apps.setAnnounced(pool, { app, graphs })
  const storePool = async (graph_id: string) => {
    const id = graphRecordId(app, graph_id)
    const body = JSON.stringify({ graph_id, pool })
    const known = await store.records.get(GRAPH, id)
    if (known === null) await store.apply([{ step: 'records.insert', row: newRecord(GRAPH, id, { app, body }) }])
    else if (known.body !== body)
      await store.apply([{ step: 'records.patch', kind: GRAPH, id, where: {}, set: { body, updated_at: clock.now() } }])
    apps.announce(app, graph_id, pool)
  }
  await Promise.all(graphs.map(storePool))
  passOn({ link, apps }, announced)
}

/** Tells all resource workers, this one included, what a graph worker has announced. */
export function passOn({ link, apps }: Pick<Shared, 'link' | 'apps'>, announced: Announced): void {
  const { app, pool, libraries, auth = false } = announced
  apps.setGuarded(app, pool, auth)
  if (libraries !== undefined) apps.setLibraries(app, pool, libraries)
  link.nc.publish(ANNOUNCED, Buffer.from(jsonText(announced)))
}
