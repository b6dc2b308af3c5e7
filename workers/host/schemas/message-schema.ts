import type { JsonObject } from '../../../schemas/json.js'

/** The schema of a channel of messages. */
export const MESSAGES: JsonObject = {
  type: 'array',
  langgraph_type: 'messages',
  description: 'A list of chat messages',
}
