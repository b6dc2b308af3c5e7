/**
 * Applications: the built-in one, those that a graph worker announces under another name, and deployments. Resolves the
 * application of a call and the pool of its new runs. Rows of deployments are cached for 5 s at most, and dropped at once
 * when one changes.
 */
import type { Handler } from '../../bus/serve.js'
import type { Libraries } from '../../schemas/announcements.js'
import type { AppHostSettings } from '../../schemas/app-host.js'
import type { CallHead } from '../../schemas/calls.js'
import { revisionOfPool } from '../../schemas/deploy-calls.js'
import { fail } from '../../schemas/errors.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { Sender } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'

/** A deployment as the run plane needs it. */
export interface Served {
  deployment_id: string
  slug: string
  /** deploying, failed: no revision is active yet. */
  state: 'serving' | 'deploying' | 'failed' | 'deleting'
  /** The pool of the active revision. */
  pool: string | null
  graphs: readonly string[]
  /** The settings of the active revision; null: it has none. */
  app_host: AppHostSettings | null
}

/** Reads the deployment of this slug or id from the store; null when there is none. */
export type FindServed = (wanted: { slug: string } | { id: string }) => Promise<Served | null>

export interface PoolAnnouncement {
  app: string
  graphs: readonly string[]
}

export interface Apps {
  /**
   * The head with `app` filled in, and marked `unchecked` when the application brings an `auth` that the call did not
   * pass. Throws not_found, unavailable (being deployed) or conflict (docs/spec/control-plane.md#run-plane).
   */
  resolve(head: CallHead): CallHead | Promise<CallHead>
  /** The pool of new runs of the graph; null when the application has no such graph. */
  poolOf(app: string, graph_id: string): Promise<string | null>
  /** A pool whose graph workers have the files of the application; null when it is not served. */
  anyPool(app: string): Promise<string | null>
  /** Whether the application has the graph, as far as it is known here. */
  serves(app: string, graph_id: string): Promise<boolean>
  /** The pool that executes a run that was accepted for `pool`: that of the revision that is active now. */
  poolFor(app: string, pool: string): Promise<string>
  /** A graph worker runs this graph for this application. */
  announce(app: string, graph_id: string, pool: string): void
  /** A stored announcement: the pool of the graph until a graph worker announces another. */
  remember(app: string, graph_id: string, pool: string): void
  /** The last announcement for the pool that this worker received; null: none. */
  announcedFor(pool: string): PoolAnnouncement | null
  setAnnounced(pool: string, announcement: PoolAnnouncement): void
  /** A graph worker of the pool executes the graphs of the application with these versions of LangGraph. */
  setLibraries(app: string, pool: string, libraries: Libraries): void
  /** Whether the graphs of the pool are of an application that brings its own `auth`. */
  setGuarded(app: string, pool: string, guarded: boolean): void
  /** Whether callers of the application are identified by keys: it is known here, and brings no `auth`. */
  takesKeys(app: string): Promise<boolean>
  /** The active revision of a deployment; null for another application. */
  deploymentOf(app: string): Promise<Served | null>
  /** The versions of LangGraph, of the active revision for a deployment; null: no graph worker has announced them yet. */
  librariesOf(app: string): Promise<Libraries | null>
  /** Whether a graph worker can run its graphs. */
  ready(app: string): Promise<boolean>
  /** Whether the application is a deployment: its revisions are announced by their own workers only. */
  isDeployment(app: string): Promise<boolean>
  /** Drops cached deployments, because one changed. */
  forget(): void
  /** Changes whenever the graphs of the application may have changed. */
  generation(app: string): string
}

/**
 * Whether there is such a pool of this application: of a deployment only those of its revisions, of any other application
 * all names but those. So a graph worker cannot take over a deployment by its name.
 */
export async function isPool(
  { apps, store }: { apps: Pick<Apps, 'isDeployment'>; store: Pick<Store, 'records'> },
  { app, pool }: Sender,
): Promise<boolean> {
  const revision_id = revisionOfPool(pool)
  if (revision_id === null) return app === BUILT_IN_APP || !(await apps.isDeployment(app))
  return (await store.records.get('revision', revision_id))?.parent === app
}

/** The application of a call, as its handler resolved it. */
export const appOf = ({ app }: CallHead): string => app ?? BUILT_IN_APP

/** `isGuarded`: the application brings an `auth`, which calls of clients must have passed; that of no other counts. */
const marked = (head: CallHead, isGuarded: boolean): CallHead =>
  (head.checked === undefined ? !isGuarded : head.checked === appOf(head)) ? head : { ...head, unchecked: true }

const CACHE_MS = 5_000
/** Versions kept per application: one pool per revision of a deployment. */
const MAX_POOLS = 100

export function openApps(find: FindServed): Apps {
  const announced = new Map<string, Map<string, string>>()
  const remembered = new Map<string, string>()
  const byPool = new Map<string, PoolAnnouncement>()
  /** Application → pool → versions, the pool that was announced last at the end. */
  const libraries = new Map<string, Map<string, Libraries>>()
  /** Application → its pools with an `auth`. */
  const guarded = new Map<string, Set<string>>()
  const generations = new Map<string, number>()
  let changes = 0
  let kept = new Map<string, { served: Promise<Served | null>; until: number }>()

  function findCached(key: string, wanted: { slug: string } | { id: string }): Promise<Served | null> {
    const known = kept.get(key)
    if (known !== undefined && known.until > performance.now()) return known.served
    const served = find(wanted)
    const mine = { served, until: performance.now() + CACHE_MS }
    kept.set(key, mine)
    // A missing or unreadable deployment is not cached.
    const drop = () => kept.get(key) === mine && kept.delete(key)
    served.then(found => found === null && drop(), drop)
    return served
  }

  async function resolveDeployment(head: CallHead, wanted: { slug: string } | { id: string }): Promise<CallHead> {
    const name = 'slug' in wanted ? wanted.slug : wanted.id
    const served = await findCached('slug' in wanted ? `/${name}` : name, wanted)
    if (served === null) {
      if (name !== BUILT_IN_APP && announced.has(name)) return marked({ ...head, app: name }, guarded.has(name))
      throw fail('not_found', `Deployment ${name} not found`)
    }
    if (served.state === 'deploying')
      throw fail('unavailable', `Deployment ${name} has no active revision yet: its first one is being deployed`)
    if (served.state === 'failed')
      throw fail('conflict', `Deployment ${name} has no active revision: none could be deployed so far`)
    if (served.state === 'deleting') throw fail('conflict', `Deployment ${name} is being deleted`)
    return marked({ ...head, app: served.deployment_id }, served.app_host?.auth != null)
  }

  return {
    resolve(head) {
      // A caller names a deployment; the application is resolved here only.
      const { app, ...own } = head
      const named = app === undefined ? head : own
      if (named.deployment !== undefined) return resolveDeployment(named, named.deployment)
      return marked(named, guarded.has(BUILT_IN_APP))
    },
    isDeployment: async app => (await findCached(app, { id: app })) !== null,
    async poolOf(app, graph_id) {
      const own = announced.get(app)
      // Before the first announcement, runs of the built-in application wait in their pool.
      if (own !== undefined || app === BUILT_IN_APP)
        return (
          own?.get(graph_id) ??
          (app === BUILT_IN_APP ? (remembered.get(JSON.stringify([app, graph_id])) ?? 'default') : null)
        )
      const served = await findCached(app, { id: app })
      return served?.graphs.includes(graph_id) ? served.pool : null
    },
    async anyPool(app) {
      const [pool] = announced.get(app)?.values() ?? []
      if (pool !== undefined || app === BUILT_IN_APP) return pool ?? null
      return (await findCached(app, { id: app }))?.pool ?? null
    },
    async serves(app, graph_id) {
      const pool = announced.get(app)?.get(graph_id)
      if (pool !== undefined) return byPool.get(pool)?.graphs.includes(graph_id) ?? true
      // Before the first announcement, every graph of the built-in application may exist.
      if (announced.has(app) || app === BUILT_IN_APP) return !announced.has(app)
      return (await findCached(app, { id: app }))?.graphs.includes(graph_id) ?? false
    },
    async poolFor(app, pool) {
      if (app === BUILT_IN_APP || announced.has(app)) return pool
      const served = await findCached(app, { id: app }).catch(() => null)
      return served?.pool ?? pool
    },
    announce(app, graph_id, pool) {
      generations.set(app, (generations.get(app) ?? 0) + 1)
      const graphs = announced.get(app) ?? new Map<string, string>()
      announced.set(app, graphs.set(graph_id, pool))
    },
    announcedFor: pool => byPool.get(pool) ?? null,
    setAnnounced: (pool, announcement) => void byPool.set(pool, announcement),
    setLibraries(app, pool, versions) {
      const pools = libraries.get(app) ?? new Map<string, Libraries>()
      pools.delete(pool)
      libraries.set(app, pools.set(pool, versions))
      if (pools.size > MAX_POOLS) pools.delete(pools.keys().next().value!)
    },
    setGuarded(app, pool, isGuarded) {
      const pools = guarded.get(app) ?? new Set()
      if (isGuarded) guarded.set(app, pools.add(pool))
      else if (pools.delete(pool) && pools.size === 0) guarded.delete(app)
    },
    async takesKeys(app) {
      if (app === BUILT_IN_APP || announced.has(app)) return announced.has(app) && !guarded.has(app)
      const served = await findCached(app, { id: app })
      return served?.state === 'serving' && served.app_host?.auth == null
    },
    deploymentOf: app => findCached(app, { id: app }),
    async librariesOf(app) {
      const pools = libraries.get(app) ?? new Map<string, Libraries>()
      const active = app === BUILT_IN_APP ? null : (await findCached(app, { id: app }))?.pool
      return (active ? pools.get(active) : [...pools.values()].at(-1)) ?? null
    },
    remember(app, graph_id, pool) {
      remembered.set(JSON.stringify([app, graph_id]), pool)
    },
    async ready(app) {
      return announced.has(app) || (app !== BUILT_IN_APP && (await findCached(app, { id: app }))?.state === 'serving')
    },
    generation: app => `${generations.get(app) ?? 0} ${changes}`,
    forget() {
      changes++
      kept = new Map()
    },
  }
}

/**
 * The handlers of a noun whose calls are for an application: `head.app` says which. While values are encrypted, `serving`
 * makes the user and the headers of the call known to the store.
 */
export const inApplication = (
  apps: Apps,
  handlers: { [verb: string]: Handler },
  isEncrypted: () => boolean,
  serving: <T>(head: CallHead, work: () => T) => T,
): { [verb: string]: Handler } =>
  Object.fromEntries(
    Object.entries(handlers).map(([verb, { handle, ...rest }]) => {
      const handleOwn: Handler['handle'] = (value, own) =>
        isEncrypted() ? serving(own.head, () => handle(value, own)) : handle(value, own)
      const resolved: Handler['handle'] = (value, context) => {
        const head = apps.resolve(context.head)
        if (head instanceof Promise) return head.then(head => handleOwn(value, { ...context, head }))
        return handleOwn(value, head === context.head ? context : { ...context, head })
      }
      return [verb, { ...rest, handle: resolved }]
    }),
  )
