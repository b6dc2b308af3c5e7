/** A2UI 0.9 over A2A (docs/spec/protocols.md#a2ui): interfaces that an agent describes, and what a user does with them. */
import typia, { type tags } from 'typia'
import { isObject, type Json, type JsonObject } from '../json.js'

export const A2UI_EXTENSION = 'https://a2ui.org/a2a-extension/a2ui/v0.9'
/** The media type of version 0.9, and that of later versions. */
export const A2UI_TYPES = ['application/json+a2ui', 'application/a2ui+json'] as const
export type A2uiType = (typeof A2UI_TYPES)[number]

export const isA2uiType = (type: unknown): type is A2uiType => A2UI_TYPES.includes(type as A2uiType)

/** The media type of a part or of a content block that is A2UI; null: it is none. */
export function a2uiTypeOf({ metadata }: { metadata?: unknown }): A2uiType | null {
  const type = isObject(metadata) ? metadata.mimeType : null
  return isA2uiType(type) ? type : null
}

type Version = 'v0.9'
interface Surface {
  surfaceId: string
}

/** From the client. */
export type A2uiEvent =
  | {
      version: Version
      action: Surface & {
        name: string
        sourceComponentId: string
        timestamp: string & tags.Format<'date-time'>
        context: JsonObject
      }
    }
  | { version: Version; error: Surface & { code: string; message: string; path?: string } }

/** From the agent. Components and themes are those of a catalog that only the agent and its client know. */
export type A2uiMessage =
  | {
      version: Version
      createSurface: Surface & { catalogId: string; theme?: JsonObject; sendDataModel?: boolean }
    }
  | { version: Version; updateComponents: Surface & { components: JsonObject[] & tags.MinItems<1> } }
  | { version: Version; updateDataModel: Surface & { path?: string; value?: Json } }
  | { version: Version; deleteSurface: Surface }

/** Metadata of a message of a client. */
export interface A2uiMetadata {
  a2uiClientCapabilities?: {
    'v0.9': { supportedCatalogIds: string[]; inlineCatalogs?: (JsonObject & { catalogId: string })[] }
  }
  a2uiClientDataModel?: { version: Version; surfaces: { [surfaceId: string]: JsonObject } }
}

export const validateA2uiEvents = typia.createValidate<A2uiEvent | A2uiEvent[]>()
export const validateA2uiMessages = typia.createValidate<A2uiMessage | A2uiMessage[]>()
export const validateA2uiMetadata = typia.createValidate<A2uiMetadata>()
