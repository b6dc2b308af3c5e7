/** Assistants on the wire (docs/spec/assistants.md). */
import typia, { type tags } from 'typia'
import type { Config, JsonObject, Uuid } from './json.js'

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

/** Every member may be null, which leaves it as it is. */
export interface AssistantPatch {
  graph_id?: string | null
  config?: Config | null
  context?: JsonObject | null
  metadata?: JsonObject | null
  name?: string | null
  description?: string | null
}

type Offset = number & tags.Type<'uint32'>
type Limit = number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>

export interface AssistantCount {
  metadata?: JsonObject | null
  graph_id?: string | null
  /** A part of the name, in any case. */
  name?: string | null
}

export type AssistantField = keyof Assistant

export interface AssistantSearch extends AssistantCount {
  limit?: Limit | null
  offset?: Offset | null
  sort_by?: 'assistant_id' | 'graph_id' | 'name' | 'created_at' | 'updated_at' | null
  sort_order?: 'asc' | 'desc' | null
  select?: AssistantField[] | null
}

export interface VersionSearch {
  limit?: Limit | null
  offset?: Offset | null
  metadata?: JsonObject | null
}

export interface LatestVersion {
  version?: (number & tags.Type<'uint32'> & tags.Minimum<1>) | null
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

export const validateAssistantCreate = typia.createValidate<AssistantCreate>()
export const validateAssistantPatch = typia.createValidate<AssistantPatch>()
export const validateAssistantCount = typia.createValidate<AssistantCount>()
export const validateAssistantSearch = typia.createValidate<AssistantSearch>()
export const validateVersionSearch = typia.createValidate<VersionSearch>()
export const validateLatestVersion = typia.createValidate<LatestVersion>()
