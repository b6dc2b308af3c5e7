/** What graph workers announce to resource workers, and what resource workers pass on to each other. */
import typia from 'typia'
import type { ItemTtlDefaults } from './items.js'
import type { JsonObject } from './json.js'
import type { TtlDefaults } from './threads.js'

/** What a graph worker announces at start, repeatably. */
export interface Registration {
  app: string
  /** The revision that runs there: then its graphs are served from its cutover on. Absent: they are served at once. */
  revision?: string
  pool: string
  graphs: { graph_id: string; description?: string | null; config?: JsonObject; context?: JsonObject }[]
  /** How long its threads live when nobody says so; null or absent: for ever. */
  ttl?: TtlDefaults | null
  /** How long its items live when nobody says so; null or absent: for ever. */
  item_ttl?: ItemTtlDefaults | null
}

/** What resource workers tell each other of a registration. */
export interface Announced {
  app: string
  pool: string
  /** Graph ids. */
  graphs: string[]
}

export const validateAnnounced = typia.createValidate<Announced>()

/** Nobody takes runs from this pool any more. */
export interface Retirement {
  pool: string
}

export const validateRetirement = typia.createValidate<Retirement>()

export const validateRegistration = typia.createValidate<Registration>()
