/** Assistants on the wire (API: contract "Assistant", assistants-crons-store 2). */
import typia, { type tags } from 'typia'
import type { TtlDefaults } from './threads.js'

export type Json = unknown
export type JsonObject = { [key: string]: Json }
export type Uuid = string & tags.Format<'uuid'>

export interface Config {
  tags?: string[] | null
  recursion_limit?: number | null
  configurable?: JsonObject | null
  [key: string]: Json
}

export interface AssistantCreate {
  graph_id: string
  assistant_id?: Uuid | null
  config?: Config | null
  context?: JsonObject | null
  metadata?: JsonObject | null
  if_exists?: 'raise' | 'do_nothing' | null
  name?: string | null
  description?: string | null
}

export interface Assistant {
  assistant_id: string
  graph_id: string
  name: string
  description: string | null
  config: JsonObject
  context: JsonObject
  metadata: JsonObject
  version: number
  created_at: string
  updated_at: string
}

/** What a graph worker announces at start, repeatably. */
export interface Registration {
  app: string
  /** The revision that runs there: then its graphs are served from its cutover on. Absent: they are served at once. */
  revision?: string
  pool: string
  graphs: { graph_id: string; description?: string | null; config?: JsonObject; context?: JsonObject }[]
  /** How long its threads live when nobody says so; null or absent: for ever. */
  ttl?: TtlDefaults | null
}

/** What resource workers tell each other of a registration. */
export interface Announced {
  app: string
  pool: string
  /** Graph ids. */
  graphs: string[]
}

export const validateAnnounced = typia.createValidate<Announced>()
export const validateAssistantCreate = typia.createValidate<AssistantCreate>()
/** Nobody takes runs from this pool any more. */
export interface Retirement {
  pool: string
}

export const validateRetirement = typia.createValidate<Retirement>()
export const validateRegistration = typia.createValidate<Registration>()
