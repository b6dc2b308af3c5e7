/** The values of steps that the handlers of an application encrypt. Keys for searches are those of the encrypted values. */
import { keysOf } from '../../../schemas/contains.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { Step } from '../../../store/steps.js'
import { bytesOf, fromBytes, fromText, type Kind, type Sealed, textOf, typedOf } from './envelope.js'

/** A value, and where its encrypted form is put. */
export interface Cell {
  model: string
  field: string
  kind: Kind
  bytes: Uint8Array
  put(sealed: Sealed): void
  /** Leaves the value out, because its row does not exist. */
  drop(): void
}

/** `step`: a copy, into which the cells are put. The rest says whose values they are. */
export interface Sealable {
  step: Step
  cells: Cell[]
  app?: string
  thread_id?: string
  run_id?: string
  record?: { kind: string; id: string }
}

type Fields = { readonly [name: string]: Kind }

const ASSISTANT: Fields = { metadata: 'json', context: 'json', config: 'json' }
const THREAD: Fields = { metadata: 'json', config: 'json', interrupts: 'blob', error: 'blob' }
const RUN: Fields = {
  metadata: 'json',
  kwargs: 'json',
  error: 'blob',
  base: 'blob',
  webhook: 'blob',
  webhook_log: 'blob',
  auth_user: 'blob',
}
/** Members of the body of a cron; the rest is its timetable. */
const CRON: Fields = { metadata: 'json', payload: 'json', user: 'blob', headers: 'blob' }

const encoder = new TextEncoder()

/** Null for a step without values of users. */
export function sealable(step: Step): Sealable | null {
  switch (step.step) {
    case 'assistants.insert': {
      const copy = { ...step, row: { ...step.row } }
      const found = (json: string) => Object.assign(copy, { searchable: json })
      return { step: copy, app: step.row.app, cells: texts('assistant', copy.row, ASSISTANT, found) }
    }
    case 'versions.insert': {
      const copy = { ...step, row: { ...step.row } }
      return { step: copy, app: step.row.app, cells: texts('assistant', copy.row, ASSISTANT) }
    }
    case 'assistants.patch': {
      const copy = { ...step, set: { ...step.set } }
      const found = (json: string) => Object.assign(copy, { searchable: json })
      return { step: copy, app: step.app, cells: texts('assistant', copy.set, ASSISTANT, found) }
    }
    case 'threads.insert': {
      const copy = { ...step, row: { ...step.row } }
      const found = (json: string) => keysFrom(copy, json)
      const { app, thread_id } = step.row
      return { step: copy, app, thread_id, cells: texts('thread', copy.row, THREAD, found) }
    }
    case 'threads.patch': {
      const copy = { ...step, set: { ...step.set } }
      const found = (json: string) => keysFrom(copy, json)
      return { step: copy, thread_id: step.thread_id, cells: texts('thread', copy.set, THREAD, found) }
    }
    case 'threads.state': {
      const copy = { ...step }
      const cells = [...bytes('thread', copy, 'values', 'json'), ...bytes('thread', copy, 'rest', 'blob')]
      return { step: copy, thread_id: step.thread_id, cells }
    }
    case 'runs.insert': {
      const copy = { ...step, row: { ...step.row } }
      const { app, thread_id, run_id } = step.row
      const cells = [...texts('run', copy.row, RUN), ...bytes('run', copy.row, 'result', 'blob')]
      return { step: copy, app, thread_id, run_id, cells }
    }
    case 'runs.patch': {
      const copy = { ...step, set: { ...step.set } }
      const cells = [...texts('run', copy.set, RUN), ...bytes('run', copy.set, 'result', 'blob')]
      return { step: copy, run_id: step.run_id, cells }
    }
    case 'checkpoints.insert': {
      const copy = {
        ...step,
        checkpoints: step.checkpoints.map(row => ({ ...row })),
        blobs: step.blobs.map(row => ({ ...row })),
        writes: step.writes.map(row => ({ ...row })),
      }
      const cells = [
        ...copy.checkpoints.flatMap(row => [typed(row, 'checkpoint', VALUE), typed(row, 'metadata', METADATA)]),
        ...copy.blobs.map(row => typed(row, row.channel, VALUE)),
        ...copy.writes.map(row => typed(row, row.channel, VALUE)),
      ]
      return { step: copy, thread_id: step.thread_id, cells }
    }
    case 'records.insert': {
      const copy = { ...step, row: { ...step.row } }
      return { step: copy, app: step.row.app, cells: records(step.row.kind, copy.row) }
    }
    case 'records.patch': {
      const copy = { ...step, set: { ...step.set } }
      return { step: copy, record: { kind: step.kind, id: step.id }, cells: records(step.kind, copy.set) }
    }
    case 'items.put':
    case 'items.replace': {
      const copy = { ...step, row: { ...step.row } }
      const found = (json: string) => Object.assign(copy, { searchable: json })
      return { step: copy, app: step.row.app, cells: texts('store', copy.row, { value: 'json' }, found) }
    }
    default:
      return null
  }
}

/** `found` receives the encrypted metadata, or the encrypted value of an item. */
function texts(model: string, row: object, fields: Fields, found: (json: string) => void = () => {}): Cell[] {
  const columns = row as { [column: string]: unknown }
  return Object.entries(fields).flatMap(([field, kind]) => {
    const text = columns[field]
    // A row that was read without decryption, for its ids, keeps what it has.
    if (typeof text !== 'string' || fromText(text) !== null) return []
    const put = (sealed: Sealed) => {
      columns[field] = textOf(sealed)
      if (field === 'metadata' || field === 'value') found(Buffer.from(sealed.bytes).toString())
    }
    return [{ model, field, kind, bytes: encoder.encode(text), put, drop: () => delete columns[field] }]
  })
}

/** Records with content of users: crons, and the answers that are kept for Idempotency-Key. Others have no cells. */
function records(kind: string, row: { body?: string }): Cell[] {
  if (row.body === undefined) return []
  if (kind === IDEMPOTENCY) return texts('run', row, { body: 'blob' })
  if (kind !== CRON_KIND) return []
  const body = parseJson(row.body) as JsonObject
  return Object.entries(CRON).flatMap(([field, kind]) => {
    const value = body[field]
    // A text is encrypted already.
    if (value === undefined || value === null || typeof value === 'string') return []
    const put = (sealed: Sealed) => {
      body[field] = textOf(sealed)
      row.body = jsonText(body)
    }
    return [{ model: 'cron', field, kind, bytes: encoder.encode(jsonText(value)), put, drop: () => delete row.body }]
  })
}

export const CRON_KIND = 'cron'
const IDEMPOTENCY = 'idempotency'

/** JSON text as bytes. Only an object has keys that a handler must keep; other values are blobs. */
function bytes(model: string, row: object, field: string, kind: Kind): Cell[] {
  const columns = row as { [column: string]: unknown }
  const value = columns[field]
  if (!(value instanceof Uint8Array) || fromBytes(value) !== null) return []
  const put = (sealed: Sealed) => {
    columns[field] = bytesOf(sealed)
  }
  const drop = () => {
    columns[field] = null
  }
  return [{ model, field, kind: value[0] === BRACE ? kind : 'blob', bytes: value, put, drop }]
}

const BRACE = '{'.charCodeAt(0)

/** The columns of a value of a checkpoint. */
export interface TypedColumns {
  type: string
  value: string
  size: string
}
export const VALUE: TypedColumns = { type: 'type', value: 'value', size: 'size' }
export const METADATA: TypedColumns = { type: 'meta_type', value: 'metadata', size: 'meta_size' }

function typed(row: object, field: string, { type, value, size }: TypedColumns): Cell {
  const columns = row as { [column: string]: unknown }
  const put = (sealed: Sealed) => {
    const stored = typedOf(String(columns[type]), sealed)
    columns[type] = stored.type
    columns[value] = stored.value
    columns[size] = stored.value.length
  }
  const drop = () => {
    columns[value] = new Uint8Array(0)
    columns[size] = 0
  }
  return { model: 'checkpoint', field, kind: 'blob', bytes: columns[value] as Uint8Array, put, drop }
}

const keysFrom = (step: { keys?: readonly string[] }, json: string): void => {
  step.keys = keysOf(parseJson(json) as JsonObject)
}
