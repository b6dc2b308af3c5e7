/** Protocol v2 on the wire (docs/spec/protocol-v2.md): commands, filters of event streams, and the tags of events. */
import typia, { type tags } from 'typia'
import { jsonText } from '../exact.js'
import type { Json, JsonObject } from '../json.js'
import type { From } from '../thread-stream.js'

/** Where in a run: the segments `node:task-id` from the root graph down. */
export type Namespace = readonly string[]

/**
 * The first line of an event's frame, a comment, so that no process on the way has to read the event: JSON
 * `[channel, namespace]`, with a third member 1 on the last events of a run. Those say that the run has ended, and must
 * not be delivered before its end is stored.
 */
export interface EventTag {
  /** `custom:<name>` for a custom event with a name. */
  channel: string
  namespace: Namespace
  last: boolean
}

export const tagText = ({ channel, namespace, last }: EventTag): string =>
  JSON.stringify(last ? [channel, namespace, 1] : [channel, namespace])

/** Null for a line that is no tag: a host runs user code, so its frames may hold anything. */
export function readTag(text: string): EventTag | null {
  let tag: unknown
  try {
    tag = JSON.parse(text)
  } catch {
    return null
  }
  if (!Array.isArray(tag)) return null
  const [channel, namespace, last] = tag as [unknown, unknown, unknown]
  if (typeof channel !== 'string' || !Array.isArray(namespace)) return null
  return namespace.every(segment => typeof segment === 'string') ? { channel, namespace, last: last === 1 } : null
}

/** The events of a batch, one by one: the text of the tag, and the frame without it. */
export function* framesOf(bytes: Uint8Array): Generator<{ tag: string; frame: Uint8Array }> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at < view.length; ) {
    const line = view.indexOf(0x0a, at)
    const found = view.indexOf('\n\n', line, 'latin1')
    const end = found < 0 ? view.length : found + 2
    yield { tag: view.toString('utf8', at + 2, line), frame: view.subarray(line + 1, end) }
    at = end
  }
}

/** Channels of events; any `custom:<name>` is one, too. */
const CHANNELS = 'values updates messages tools lifecycle input tasks checkpoints custom'.split(' ')

/** The first channel that does not exist. */
export const unknownChannel = (channels: readonly string[]): string | undefined =>
  channels.find(channel => !CHANNELS.includes(channel) && !/^custom:./.test(channel))
export const CHANNELS_TEXT = `${CHANNELS.join(', ')} or custom:<name>`

type Count = number & tags.Type<'uint32'>

/** Body of POST /threads/{id}/stream/events. */
export interface EventsRequest {
  channels: string[] & tags.MinItems<1>
  namespaces?: string[][] | null
  depth?: Count | null
  since?: (number & tags.Minimum<0>) | null
}

/** Which events a stream carries. */
export interface EventsFilter {
  channels: string[]
  namespaces: string[][] | null
  depth: number | null
}

/** A checked request for events: the answer of rpc.threads.filter. */
export interface EventsAsked {
  filter: EventsFilter
  from: From
}

/** A command of a WebSocket that the edge carries out: the answer of rpc.threads.socket_command. */
export type EdgeAction = { id: number; subscribe: EventsAsked } | { id: number; unsubscribe: string }

interface Unsubscribe {
  subscription_id: string
}

export interface Command {
  /** Not greater than a JavaScript number can tell from its neighbours. */
  id: number & tags.Type<'uint64'> & tags.Maximum<9007199254740991>
  method: string
  params?: JsonObject | null
}

export interface RunStart {
  assistant_id: string
  input?: Json
  config?: JsonObject | null
  metadata?: JsonObject | null
  langsmith_tracer?: JsonObject | null
  multitaskStrategy?: Json
  multitask_strategy?: Json
}

interface Responded {
  config?: JsonObject | null
  metadata?: JsonObject | null
  update?: JsonObject | [string, Json][] | null
  goto?: Json
}

export interface InputRespondOne extends Responded {
  interrupt_id: string
  response?: Json
}

export interface InputRespondMany extends Responded {
  responses: { interrupt_id: string; response?: Json }[] & tags.MinItems<1>
}

export interface StateGet {
  namespace?: string[] | null
  keys?: string[] | null
}

export interface ListCheckpoints {
  namespace?: string[] | null
  limit?: (Count & tags.Minimum<1> & tags.Maximum<1000>) | null
  before?: string | null
}

export interface StateFork {
  checkpoint_id: string
  input?: Json
  config?: JsonObject | null
}

export interface GetTree {
  run_id?: string | null
}

export type ProtocolError =
  | 'invalid_argument'
  | 'unknown_command'
  | 'unknown_error'
  | 'no_such_run'
  | 'no_such_subscription'
  | 'no_such_namespace'
  | 'no_such_interrupt'
  | 'no_such_checkpoint'
  | 'permission_denied'
  | 'not_supported'

export const successText = (id: number, result: object, meta?: object): string =>
  jsonText({ type: 'success', id, result, ...(meta === undefined ? {} : { meta }) })
export const errorText = (id: number | null, error: ProtocolError, message: string): string =>
  jsonText({ type: 'error', id, error, message })

export const validateEventsRequest = typia.createValidate<EventsRequest>()
export const validateUnsubscribe = typia.createValidate<Unsubscribe>()
export const validateCommand = typia.createValidate<Command>()
export const validateRunStart = typia.createValidate<RunStart>()
export const validateInputRespond = typia.createValidate<InputRespondOne | InputRespondMany>()
export const validateStateGet = typia.createValidate<StateGet>()
export const validateListCheckpoints = typia.createValidate<ListCheckpoints>()
export const validateStateFork = typia.createValidate<StateFork>()
export const validateGetTree = typia.createValidate<GetTree>()
