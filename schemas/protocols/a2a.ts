/**
 * A2A over JSON-RPC 2.0, versions 0.3 and 1.0 of the protocol (docs/spec/protocols.md#a2a). A method says which of the
 * two its client speaks; what clients send is read in the spelling of either.
 */
import typia, { type tags } from 'typia'
import type { Json, JsonObject } from '../json.js'
import type { Command } from '../runs.js'

export type A2aVersion = '0.3' | '1.0'
export const A2A_VERSIONS: readonly A2aVersion[] = ['1.0', '0.3']

export type A2aWork = 'send' | 'stream' | 'get' | 'list' | 'cancel' | 'subscribe' | 'card' | 'push'

/** Method → what it does and the version that it belongs to. */
export const A2A_METHODS: ReadonlyMap<string, { work: A2aWork; version: A2aVersion }> = new Map(
  Object.entries({
    '0.3': {
      'message/send': 'send',
      'message/stream': 'stream',
      'tasks/get': 'get',
      'tasks/cancel': 'cancel',
      'tasks/resubscribe': 'subscribe',
      'agent/getAuthenticatedExtendedCard': 'card',
      'tasks/pushNotificationConfig/set': 'push',
      'tasks/pushNotificationConfig/get': 'push',
      'tasks/pushNotificationConfig/list': 'push',
      'tasks/pushNotificationConfig/delete': 'push',
    },
    '1.0': {
      SendMessage: 'send',
      SendStreamingMessage: 'stream',
      GetTask: 'get',
      ListTasks: 'list',
      CancelTask: 'cancel',
      SubscribeToTask: 'subscribe',
      GetExtendedAgentCard: 'card',
      CreateTaskPushNotificationConfig: 'push',
      GetTaskPushNotificationConfig: 'push',
      ListTaskPushNotificationConfigs: 'push',
      DeleteTaskPushNotificationConfig: 'push',
    },
  } satisfies { [version in A2aVersion]: { [method: string]: A2aWork } }).flatMap(([version, methods]) =>
    Object.entries(methods).map(([method, work]) => [method, { work, version: version as A2aVersion }] as const),
  ),
)

/** JSON-RPC 2.0, section 5.1, and A2A 1.0, section 9.5. */
export const A2A_ERRORS = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  no_task: -32001,
  not_cancelable: -32002,
  no_push: -32003,
  unsupported: -32004,
  content: -32005,
  version: -32009,
} as const
export type A2aErrorCode = keyof typeof A2A_ERRORS

/** The answer of the method is this error. */
export class A2aError extends Error {
  constructor(
    readonly code: A2aErrorCode,
    message: string,
  ) {
    super(message)
    this.name = 'A2aError'
  }
}

/** Numbers beyond lose digits in JSON.parse, and the answer would have another id. */
type SafeInteger = number & tags.Type<'int64'> & tags.Minimum<-9007199254740991> & tags.Maximum<9007199254740991>

/** The id is part of every event of a stream. */
export interface A2aRequest {
  jsonrpc: '2.0'
  id: (string & tags.MaxLength<1000>) | SafeInteger
  method: string
  params?: JsonObject | null
}

/** One of `text`, `data`, `file` (0.3), `raw` and `url` (1.0). */
export interface A2aPart {
  text?: string
  data?: Json
  file?: { bytes?: string; uri?: string; mimeType?: string | null; name?: string | null }
  /** Base64. */
  raw?: string
  url?: string
  mediaType?: string
  filename?: string
  metadata?: JsonObject | null
}

/** Version 1.0 writes an absent text as ''. */
export interface A2aMessage {
  role: 'user' | 'agent' | 'ROLE_USER' | 'ROLE_AGENT'
  messageId: string & tags.MinLength<1> & tags.MaxLength<1000>
  parts: A2aPart[] & tags.MinItems<1> & tags.MaxItems<1000>
  contextId?: string | null
  taskId?: string | null
  metadata?: JsonObject | null
}

/** Absent: all messages of the thread up to the task. */
export type HistoryScope = 'context' | 'task'
type HistoryLength = number & tags.Type<'uint32'> & tags.Maximum<10>

export interface SendParams {
  message: A2aMessage
  configuration?: {
    /** Version 0.3; false: the answer does not wait for the run. */
    blocking?: boolean | null
    /** Version 1.0. */
    returnImmediately?: boolean | null
    historyLength?: HistoryLength | null
    historyScope?: HistoryScope | null
    pushNotificationConfig?: JsonObject | null
    taskPushNotificationConfig?: JsonObject | null
  } | null
  /** Not of A2A: of the run. */
  context?: JsonObject | null
  /** Not of A2A: instead of an input. */
  command?: Command | null
}

export interface TaskParams {
  id: string
  historyLength?: HistoryLength | null
  historyScope?: HistoryScope | null
}

export const A2A_STATES = [
  'submitted',
  'working',
  'completed',
  'failed',
  'canceled',
  'input-required',
  'rejected',
  'auth-required',
] as const
export type A2aState = (typeof A2A_STATES)[number]

/** A member of version 1.0, whose clients leave out a number that is 0. */
export interface ListParams {
  contextId?: string | null
  /** TASK_STATE_WORKING and the like. */
  status?: string | null
  pageSize?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<100>) | null
  pageToken?: string | null
  historyLength?: HistoryLength | null
  historyScope?: HistoryScope | null
  statusTimestampAfter?: (string & tags.Format<'date-time'>) | null
  includeArtifacts?: boolean | null
}

export const validateA2aRequest = typia.createValidate<A2aRequest>()
export const validateSendParams = typia.createValidate<SendParams>()
export const validateTaskParams = typia.createValidate<TaskParams>()
export const validateListParams = typia.createValidate<ListParams>()
