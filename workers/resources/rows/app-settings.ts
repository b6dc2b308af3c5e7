/**
 * The settings of each pool of an application beside its graphs: parts of langgraph.json, as the graph workers of the pool
 * announce them. Stored, because resource workers need them also while no graph worker runs.
 */
import { isDeepStrictEqual } from 'node:util'
import type { AppHostSettings, EncryptionHandlers } from '../../../schemas/app-host.js'
import type { HttpConfig } from '../../../schemas/application.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import type { ItemIndex, ItemTtlDefaults } from '../../../schemas/items/items.js'
import type { TtlDefaults } from '../../../schemas/threads.js'
import type { WebhookField, WebhookUrlRules } from '../../../schemas/webhooks.js'
import type { Store } from '../../../store/port.js'
import type { Step } from '../../../store/steps.js'
import { newRecord } from './record.js'

/** The settings of one pool, by the kind of the record that holds each. */
export interface PoolSettings {
  /** `checkpointer.ttl` */
  thread_ttl: TtlDefaults
  /** `store.ttl` */
  item_ttl: ItemTtlDefaults
  /** `store.index` */
  item_index: ItemIndex
  /** `store.path`: the pool whose graph workers reach the store of the application. */
  app_store: { pool: string }
  /** `checkpointer.path`: a graph whose hosts remove copies of checkpoints. */
  app_checkpointer: { pool: string; graph_id: string }
  encryption: AppHandlers
  /** `http`, for the edge */
  app_http: HttpConfig
  /** The app host that runs beside graph workers, for the edge. */
  app_host: AppHostSettings
  app_webhooks: StoredWebhooks
}

/** The encryption handlers of an application, and the pool whose graph workers execute them. */
export interface AppHandlers extends EncryptionHandlers {
  pool: string
}

export interface WebhookRules {
  url: WebhookUrlRules
  disabled: boolean
  /** The members of the payload that are sent; null or absent: all. */
  fields?: readonly WebhookField[] | null
  /** The operator has written them: the application is no deployment. */
  by_operator?: boolean
}

export interface StoredWebhooks extends WebhookRules {
  /** The headers as JSON, sealed; null: none. */
  sealed: string | null
}

export type SettingKind = keyof PoolSettings

/** Null: the pool has none. */
export type Announced = { readonly [Kind in SettingKind]: PoolSettings[Kind] | null }

export interface AppSettings {
  /** The settings of the application's pools, in the order of their names; cached for 5 s. */
  of<Kind extends SettingKind>(kind: Kind, app: string): Promise<PoolSettings[Kind][]>
  /** The settings of one pool; null when it has none. */
  get<Kind extends SettingKind>(kind: Kind, app: string, pool: string): Promise<PoolSettings[Kind] | null>
  /** Like `get`, from the store and not from the cache. */
  stored<Kind extends SettingKind>(kind: Kind, app: string, pool: string): Promise<PoolSettings[Kind] | null>
  /** A graph worker of the application has announced others: the next reads are from the store. */
  forget(app: string): void
  /** The settings of all pools of all applications. */
  all<Kind extends SettingKind>(kind: Kind): Promise<PoolSettings[Kind][]>
  /**
   * Replaces all settings of a pool, in the order of `announced` where the store applies steps one by one. Throws
   * `unavailable` when others keep doing the same.
   */
  announce(app: string, pool: string, announced: Announced): Promise<void>
}

/** Settings that name their pool. */
type PooledKind = { [Kind in SettingKind]: PoolSettings[Kind] extends { pool: string } ? Kind : never }[SettingKind]

interface Readers {
  apps: { poolFor(app: string, pool: string): Promise<string> }
  settings: Pick<AppSettings, 'of'>
}

/** The settings of the revision that serves now; null: it has none. */
export async function activeSettings<Kind extends PooledKind>(
  { apps, settings }: Readers,
  kind: Kind,
  app: string,
): Promise<PoolSettings[Kind] | null> {
  const all = await settings.of(kind, app)
  if (all.length === 0) return null
  const active = await apps.poolFor(app, all[0]!.pool)
  return all.find(({ pool }) => pool === active) ?? null
}

/** A value that another resource worker stored shows here after this time, if its announcement is lost. */
const CACHE_MS = 5_000
const MAX_POOLS = 100
/** Graph workers of one pool that start together announce the same: the second try finds it stored. */
const TRIES = 10

export function openAppSettings(store: Store): AppSettings {
  const cache = new Map<string, { values: Map<string, unknown>; until: number }>()
  const idOf = (app: string, pool: string) => `${app} ${pool}`

  async function read(kind: SettingKind, app: string): Promise<Map<string, unknown>> {
    const key = `${kind} ${app}`
    const cached = cache.get(key)
    if (cached !== undefined && cached.until > performance.now()) return cached.values
    const rows = await store.records.list({ kind, parent: app, sort: 'id', order: 'asc', limit: MAX_POOLS })
    const values = new Map(rows.map(({ id, body }) => [id, JSON.parse(body) as unknown]))
    cache.set(key, { values, until: performance.now() + CACHE_MS })
    return values
  }

  async function stored(kind: SettingKind, app: string, pool: string): Promise<unknown> {
    const row = await store.records.get(kind, idOf(app, pool))
    return row === null ? null : JSON.parse(row.body)
  }

  /** The steps that make the stored settings equal to these. */
  async function changes(app: string, pool: string, announced: Announced): Promise<Step[]> {
    const id = idOf(app, pool)
    const steps = (Object.keys(announced) as SettingKind[]).map(async (kind): Promise<Step[]> => {
      const [value, before] = [announced[kind], await stored(kind, app, pool)]
      if (isDeepStrictEqual(before, value)) return []
      if (value === null) return [{ step: 'records.remove', kind, id, where: {} }]
      const body = jsonText(value)
      const row = newRecord(kind, id, { app, parent: app, body })
      // Never removed in between: without its settings a pool would be served as one that has none.
      if (before === null) return [{ step: 'records.insert', row }]
      return [{ step: 'records.patch', kind, id, where: {}, set: { body, updated_at: row.updated_at } }]
    })
    return (await Promise.all(steps)).flat()
  }

  return {
    of: async (kind, app) => [...(await read(kind, app)).values()] as PoolSettings[typeof kind][],
    async get(kind, app, pool) {
      const values = await read(kind, app)
      // A deployment has a pool per revision, and the newest comes last.
      const value = values.get(idOf(app, pool)) ?? (values.size < MAX_POOLS ? null : await stored(kind, app, pool))
      return value as PoolSettings[typeof kind] | null
    },
    stored: async (kind, app, pool) => (await stored(kind, app, pool)) as PoolSettings[typeof kind] | null,
    forget(app) {
      for (const key of [...cache.keys()]) if (key.endsWith(` ${app}`)) cache.delete(key)
    },
    async all(kind) {
      const rows = await store.records.list({ kind, limit: 1_000 })
      return rows.map(({ body }) => JSON.parse(body) as PoolSettings[typeof kind])
    },
    async announce(app, pool, announced) {
      for (let tries = 0; tries < TRIES; tries++) {
        const steps = await changes(app, pool, announced)
        if (steps.length > 0 && (await store.apply(steps)) !== -1) continue
        for (const kind of Object.keys(announced)) cache.delete(`${kind} ${app}`)
        return
      }
      throw fail('unavailable', `The settings of pool ${pool} are being announced by others at the same time`)
    },
  }
}
