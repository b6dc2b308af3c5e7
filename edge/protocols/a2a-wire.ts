/** Tasks of A2A as Weft sees them, and their two spellings: version 0.3 names the kind of each object, 1.0 does not. */

import { isObject, type Json, type JsonObject } from '../../schemas/json.js'
import type { A2aState, A2aVersion } from '../../schemas/protocols/a2a.js'
import { a2uiTypeOf } from '../../schemas/protocols/a2ui.js'

export type Part = ({ text: string } | { data: Json } | { file: FilePart }) & { metadata?: JsonObject }

export interface FilePart {
  /** Base64. */
  bytes?: string
  uri?: string
  mimeType?: string
  name?: string
}

export interface Message {
  role: 'user' | 'agent'
  messageId: string
  contextId: string
  taskId?: string
  parts: Part[]
}

export interface Artifact {
  artifactId: string
  name: string
  parts: Part[]
}

export interface Status {
  state: A2aState
  message?: Message
  /** ISO 8601. */
  timestamp: string
}

export interface Task {
  id: string
  contextId: string
  status: Status
  artifacts?: Artifact[]
  history?: Message[]
}

type Of = Pick<Task, 'id' | 'contextId'>
/** An event of a stream. `final`: no other one follows. */
export type Update = { task: Task } | (Of & { status: Status; final: boolean }) | (Of & { artifact: Artifact })

export function spellTask(task: Task, version: A2aVersion): JsonObject {
  const { id, contextId, status, artifacts, history } = task
  return {
    ...kind('task', version),
    id,
    contextId,
    status: spellStatus(status, version),
    ...(artifacts === undefined ? {} : { artifacts: artifacts.map(one => spellArtifact(one, version)) }),
    ...(history === undefined ? {} : { history: history.map(one => spellMessage(one, version)) }),
  }
}

export function spellUpdate(update: Update, version: A2aVersion): JsonObject {
  const isOld = version === '0.3'
  if ('task' in update) {
    const task = spellTask(update.task, version)
    return isOld ? task : { task }
  }
  const of = { taskId: update.id, contextId: update.contextId }
  if ('artifact' in update) {
    const artifact = { ...of, artifact: spellArtifact(update.artifact, version), append: false, lastChunk: true }
    return isOld ? { kind: 'artifact-update', ...artifact } : { artifactUpdate: artifact }
  }
  const status = { ...of, status: spellStatus(update.status, version) }
  return isOld ? { kind: 'status-update', ...status, final: update.final } : { statusUpdate: status }
}

/** `input-required` of version 0.3 is TASK_STATE_INPUT_REQUIRED of 1.0. */
export const spellState = (state: A2aState): string => `TASK_STATE_${state.toUpperCase().replace('-', '_')}`

const kind = (name: string, version: A2aVersion): JsonObject => (version === '0.3' ? { kind: name } : {})

const spellStatus = ({ state, message, timestamp }: Status, version: A2aVersion): JsonObject => ({
  state: version === '0.3' ? state : spellState(state),
  ...(message === undefined ? {} : { message: spellMessage(message, version) }),
  timestamp,
})

const spellMessage = ({ role, parts, ...message }: Message, version: A2aVersion): JsonObject => ({
  ...kind('message', version),
  ...message,
  role: version === '0.3' ? role : `ROLE_${role.toUpperCase()}`,
  parts: parts.map(part => spellPart(part, version)),
})

const spellArtifact = ({ parts, ...artifact }: Artifact, version: A2aVersion): JsonObject => ({
  ...artifact,
  parts: parts.map(part => spellPart(part, version)),
})

function spellPart(part: Part, version: A2aVersion): JsonObject {
  if (version === '0.3') return 'text' in part ? { kind: 'text', ...part } : spellOldPart(part)
  if (!('file' in part)) {
    const mediaType = a2uiTypeOf(part)
    return mediaType === null ? { ...part } : { ...part, mediaType }
  }
  const { bytes, uri, mimeType, name } = part.file
  return {
    ...(bytes === undefined ? { url: uri } : { raw: bytes }),
    ...(mimeType === undefined ? {} : { mediaType: mimeType }),
    ...(name === undefined ? {} : { filename: name }),
  }
}

/** The data of version 0.3 is always an object, but that of A2UI, which is a list of messages. */
function spellOldPart(part: Exclude<Part, { text: string }>): JsonObject {
  if ('file' in part) return { kind: 'file', ...part }
  const isKept = isObject(part.data) || a2uiTypeOf(part) !== null
  return { kind: 'data', ...part, data: isKept ? part.data : { value: part.data } }
}
