/**
 * JSON Schemas of the bodies of the API, derived by typia from the types that validate them. The edge loads this file
 * when somebody asks for the OpenAPI document.
 */
import typia, { type tags } from 'typia'
import type {
  Assistant,
  AssistantCount,
  AssistantCreate,
  AssistantPatch,
  AssistantSearch,
  LatestVersion,
  VersionSearch,
} from './assistants.js'
import type { KeyCreate, KeyCreated, KeyPage, KeyRevoked } from './auth/keys.js'
import type { Truncate } from './calls.js'
import type { Cron, CronCount, CronCreate, CronFiring, CronPatch, CronSearch, ThreadCronCreate } from './crons.js'
import type { Deployment, DeploymentCreate, DeploymentPatch, LogQuery, Revision } from './deployments.js'
import type { Item, ItemPut, ItemRef, ItemSearch, NamespaceSearch } from './items/items.js'
import type { Json, JsonObject } from './json.js'
import type {
  Authenticate,
  Authenticated,
  CallbackPost,
  Connection,
  ConnectionCreate,
  McpDiscover,
  TokenEvent,
  TokenImport,
  TokenPatch,
  TokenSummary,
  Waited,
} from './oauth.js'
import type { Command, EventsRequest } from './protocols/v2.js'
import type { Provider, ProviderCreate, ProviderPatch } from './providers.js'
import type { Run, RunBatch, RunCreate, RunExecution, RunFilter, RunSearch, RunsCancel } from './runs.js'
import type {
  HistoryQuery,
  StateAt,
  StateMetadata,
  StateUpdate,
  Thread,
  ThreadCreate,
  ThreadFilter,
  ThreadPatch,
  ThreadPrune,
  ThreadSearch,
  ThreadState,
} from './threads.js'
import type { LogLines, RunSpans } from './trace.js'
import type { WebhookDeliveries } from './webhooks.js'

/** Every body of a request or an answer that a route names. */
interface Bodies {
  Any: Json
  Object: JsonObject
  Count: number & tags.Type<'uint32'>
  ErrorBody: { detail: string | JsonObject[] }
  Ok: { ok: boolean }
  Info: {
    version: string
    langgraph_js_version?: string
    context?: 'js'
    langgraph_py_version?: string
    flags: { [name: string]: boolean }
    host: { [name: string]: string | null }
    metadata: JsonObject
  }
  Assistant: Assistant
  Assistants: Assistant[]
  /** With `select`, only some members. */
  AssistantsFound: Partial<Assistant>[]
  AssistantCount: AssistantCount
  AssistantCreate: AssistantCreate
  AssistantPatch: AssistantPatch
  AssistantSearch: AssistantSearch
  LatestVersion: LatestVersion
  VersionSearch: VersionSearch
  GraphDrawing: { nodes: JsonObject[]; edges: JsonObject[] }
  GraphSchemas: { graph_id: string; [name: `${string}_schema`]: JsonObject | null }
  ComponentName: { name: string & tags.MinLength<1> }
  Cron: Cron
  CronsFound: (Partial<Cron> & { now?: string; next_run_dates?: string[] })[]
  CronCount: CronCount
  CronFirings: CronFiring[]
  CronCreate: CronCreate
  CronPatch: CronPatch
  CronSearch: CronSearch
  ThreadCronCreate: ThreadCronCreate
  Deployment: Deployment
  Deployments: { resources: Deployment[]; offset: number }
  DeploymentCreate: DeploymentCreate
  DeploymentPatch: DeploymentPatch
  LogQuery: LogQuery
  Revision: Revision
  Revisions: { resources: Revision[]; offset: number }
  KeyCreate: KeyCreate
  KeyCreated: KeyCreated
  Keys: KeyPage
  KeyRevoked: KeyRevoked
  Item: Item | null
  Items: { items: Item[] }
  ItemPut: ItemPut
  ItemRef: ItemRef
  ItemSearch: ItemSearch
  Namespaces: { namespaces: string[][] }
  NamespaceSearch: NamespaceSearch
  Command: Command
  EventsRequest: EventsRequest
  Provider: Provider
  Providers: Provider[]
  ProviderCreate: ProviderCreate
  ProviderPatch: ProviderPatch
  McpDiscover: McpDiscover
  Authenticate: Authenticate
  Authenticated: Authenticated
  Waited: Waited
  CallbackPost: CallbackPost
  CallbackDone: { status: 'completed' }
  TokenSummary: TokenSummary
  TokenSummaries: TokenSummary[]
  TokensDeleted: { message: string; provider_id: string }
  TokenExists: { has_token: boolean }
  TokenImport: TokenImport
  TokenRef: { token_id: string }
  TokenPatch: TokenPatch
  TokenEvents: TokenEvent[]
  Connection: Connection
  Connections: { data: Connection[] }
  ConnectionCreate: ConnectionCreate
  Message: { message: string }
  Run: Run
  Runs: Run[]
  RunsFound: Partial<Run>[]
  RunBatch: RunBatch
  RunCreate: RunCreate
  RunFilter: RunFilter
  RunSearch: RunSearch
  RunExecution: RunExecution
  RunsCancel: RunsCancel
  HistoryQuery: HistoryQuery
  StateAt: StateAt
  StateMetadata: StateMetadata
  StateUpdate: StateUpdate
  Thread: Thread
  ThreadsFound: Partial<Thread>[]
  ThreadCreate: ThreadCreate
  ThreadFilter: ThreadFilter
  ThreadPatch: ThreadPatch
  ThreadPrune: ThreadPrune
  ThreadSearch: ThreadSearch
  ThreadState: ThreadState
  ThreadStates: ThreadState[]
  Truncate: Truncate
  LogLines: LogLines
  RunSpans: RunSpans
  WebhookDeliveries: WebhookDeliveries
}
export type BodyName = keyof Bodies

const derived = typia.json.schemas<[Bodies], '3.1'>()

/** A JSON Schema as OpenAPI 3.1 embeds it. */
type Schema = JsonObject

/** The named types. `Bodies` itself is left out. */
export function components(): { [name: string]: Schema } {
  const { Bodies: _, ...others } = derived.components.schemas as unknown as { [name: string]: Schema }
  return others
}

/** The schema of a body: a reference to a named type, or the schema itself. */
export function bodySchema(name: BodyName): Schema {
  const all = derived.components.schemas as unknown as { Bodies: { properties: { [name: string]: Schema } } }
  return all.Bodies.properties[name] ?? {}
}
