/** Announcements of graph workers to resource workers, and their notifications among resource workers. */
import typia, { type tags } from 'typia'
import type { AppHostSettings, EncryptionHandlers } from './app-host.js'
import type { HttpConfig } from './application.js'
import type { ItemIndexConfig, ItemTtlDefaults } from './items/items.js'
import type { JsonObject } from './json.js'
import type { Build } from './protocol.js'
import type { TtlDefaults } from './threads.js'
import type { WebhookSettings } from './webhooks.js'

/** The announcement of a graph worker at start; it may be repeated. */
export interface Registration {
  app: string
  /** Absent: an older Weft. */
  weft?: Build
  /** The revision that runs there: then its graphs are served from its cutover on. Absent: they are served at once. */
  revision?: string
  pool: string
  graphs: GraphAnnounced[] & tags.MaxItems<1000>
  libraries?: Libraries
  /** Graphs of the application that could not be loaded, with the sentence why. */
  failed?: { graph_id: string; error: string }[] & tags.MaxItems<1000>
  /** It brings its own `auth`: calls of clients must have passed it. */
  auth?: boolean
  /** The parts of the app host beside this graph worker; null or absent: there is none. */
  app_host?: AppHostSettings | null
  /** Default time to live of its threads; null or absent: unlimited. */
  ttl?: TtlDefaults | null
  /** Default time to live of its items; null or absent: unlimited. */
  item_ttl?: ItemTtlDefaults | null
  /** Null or absent: the defaults. */
  http?: HttpConfig | null
  /** Null or absent: no rules and no headers. */
  webhooks?: WebhookSettings | null
  /** How its items are found by meaning; null or absent: they are not. */
  item_index?: ItemIndexConfig | null
  /** Its items are in a store of its own; absent: in that of Weft. */
  app_store?: boolean
  /** A graph whose hosts remove copies of checkpoints (schemas/host.ts, Hello); null or absent: none do. */
  app_checkpointer?: (string & tags.MaxLength<512>) | null
  /** Which values are encrypted before they are stored; null or absent: none. */
  encryption?: EncryptionHandlers | null
}

export interface GraphAnnounced {
  graph_id: string & tags.MaxLength<512>
  description?: string | null
  config?: JsonObject
  context?: JsonObject
}

/** The versions of LangGraph that execute the graphs, by their language. */
export interface Libraries {
  javascript?: LibraryVersion
  python?: LibraryVersion
}

/** A version of a package, as `1.7.3`. */
export type LibraryVersion = string & tags.MaxLength<64>

/** A registration as resource workers pass it on to each other. */
export interface Announced {
  app: string
  pool: string
  /** Graph ids; none for a revision of a deployment, whose graphs are those of its row. */
  graphs: string[]
  libraries?: Libraries
  auth?: boolean
  encryption?: boolean
}

export const validateAnnounced = typia.createValidate<Announced>()

/** No worker takes runs from this pool any more. */
export interface Retirement {
  pool: string
}

export const validateRetirement = typia.createValidate<Retirement>()

export const validateRegistration = typia.createValidate<Registration>()
