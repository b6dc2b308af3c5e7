/** Assistants on the wire (API: contract "Assistant", assistants-crons-store 2). */
import typia from 'typia'
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
