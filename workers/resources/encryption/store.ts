/**
 * The store of applications with encryption handlers: values of users are encrypted before they are written, and decrypted
 * after they are read, so that all rules see plain rows. While no application has handlers, every call is passed on as it
 * is. Nothing is written in plain text, and nothing is shown, when the handlers cannot be asked.
 */
import { fail, WeftError } from '../../../schemas/errors.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { Store } from '../../../store/port.js'
import type { Step } from '../../../store/steps.js'
import type { AppHandlers } from '../rows/app-settings.js'
import { onceInStore } from '../rows/record.js'
import { servedNow } from './context.js'
import type { Owner } from './envelope.js'
import { callHandlers, contextFor, type HandlerDeps, handlersOf, type Value } from './handlers.js'
import { type SealedCell, sealedCells } from './rows.js'
import { type Cell, CRON_KIND, type Sealable, sealable } from './steps.js'

export interface Encryption {
  store: Store
  /** Rows as they are stored: for ids and statuses, and for rows whose content is that of langgraph.json. */
  plain: Store
  /** Whether an application has, or had, handlers. */
  isOn(): boolean
  /** Must be called before the handlers are needed. */
  use(deps: HandlerDeps): void
  /** An application has handlers: from now on, and after every start of a worker on this store. */
  turnOn(): Promise<void>
  /** Another worker has turned it on. */
  on(): void
  /** The context that was stored with a row that this store has read; {} for a plain one. */
  contextOf(row: object): JsonObject
}

type Of = { [name in 'thread_id' | 'run_id' | 'record']?: Sealable[name] | undefined }

const idOf = ({ run_id, thread_id, record }: Of) => run_id ?? thread_id ?? record?.id

/** The setting of the store that says that it may hold encrypted values. */
const SETTING = 'encrypted_values'
/** Threads, runs and crons whose owner is remembered. */
const MAX_OWNERS = 10_000

export async function openEncryption(inner: Store): Promise<Encryption> {
  let isOn = (await inner.records.get('setting', SETTING)) !== null
  let deps: HandlerDeps | null = null
  /** By the id of a thread, a run or a cron. */
  const owners = new Map<string, Owner>()
  const contexts = new WeakMap<object, JsonObject>()

  function remember(id: unknown, owner: Owner): Owner {
    if (typeof id !== 'string') return owner
    owners.delete(id)
    owners.set(id, owner)
    if (owners.size > MAX_OWNERS) owners.delete(owners.keys().next().value!)
    return owner
  }

  function needed(): HandlerDeps {
    if (deps === null) throw fail('unavailable', 'The encryption handlers cannot be asked yet: the worker is starting')
    return deps
  }

  /** Whose values a step without an application concerns: what is stored knows. */
  async function ownerOf({ thread_id, run_id, record }: Of): Promise<Owner | null> {
    const id = idOf({ run_id, thread_id, record })
    if (id === undefined) return null
    const known = owners.get(id)
    if (known !== undefined) return known
    const stored =
      run_id !== undefined
        ? ((await inner.runs.summary([run_id]))[0] ?? null)
        : thread_id !== undefined
          ? await inner.threads.get(null, thread_id)
          : await inner.records.get(record!.kind, record!.id)
    if (stored === null) return null
    const [cell] = sealedCells(stored)
    return remember(id, { app: stored.app, context: cell?.sealed.context ?? {} })
  }

  /** That of the request that is served; null: none is. */
  async function contextOfRequest(handlers: AppHandlers): Promise<JsonObject | null> {
    const request = servedNow()
    if (request === null) return null
    const { header, user } = request
    if (user !== null && handlers.context) request.context ??= contextFor(needed(), handlers, user, header ?? {})
    return request.context ?? header
  }

  async function apply(steps: readonly Step[]): Promise<number> {
    const made = new Map<string, Owner>()
    const failed = await inner.apply(await seal(steps, made))
    // An id that another application has fails the insert.
    if (failed === -1) for (const [id, owner] of made) remember(id, owner)
    return failed
  }

  /**
   * An encrypted value that is written again must be one of the same application: a graph worker could else store what it has
   * read elsewhere, and have it decrypted by the handlers of another one. Throws bad_request.
   */
  async function checkOwner(
    cells: readonly SealedCell[],
    found: Sealable | null,
    made: Map<string, Owner>,
  ): Promise<void> {
    const app = found?.app ?? (found && (made.get(idOf(found) ?? '') ?? (await ownerOf(found)))?.app)
    if (cells.some(({ sealed }) => sealed.app !== app)) throw fail('bad_request', FOREIGN)
  }

  async function seal(steps: readonly Step[], made: Map<string, Owner>): Promise<Step[]> {
    const out = [...steps]
    const cells: { cell: Cell; app: string; context: JsonObject; handlers: AppHandlers }[] = []
    for (const [i, step] of steps.entries()) {
      const encrypted = sealedIn(step)
      const found = sealable(step)
      if (encrypted.length > 0) await checkOwner(encrypted, found, made)
      if (found === null || found.cells.length === 0) continue
      // The row may be made by a step before.
      const known = found.app === undefined ? (made.get(idOf(found) ?? '') ?? (await ownerOf(found))) : null
      const app = found.app ?? known?.app
      if (app === undefined) {
        // The row does not exist, so the step fails or does nothing. Another worker may insert the row at this moment.
        for (const cell of found.cells) cell.drop()
        out[i] = found.step
        continue
      }
      const newId = step.step === 'threads.insert' || step.step === 'runs.insert' ? idOf(found) : undefined
      const handlers = await handlersOf(needed(), app)
      if (handlers === null) {
        if (newId !== undefined) made.set(newId, { app, context: {} })
        if (sealByKey(found.cells, app)) out[i] = found.step
        continue
      }
      // A run that no request creates belongs to its thread.
      const thread_id = step.step === 'runs.insert' ? step.row.thread_id : undefined
      const owner = known ?? (thread_id === undefined ? null : (made.get(thread_id) ?? (await ownerOf({ thread_id }))))
      const context = (await contextOfRequest(handlers)) ?? owner?.context ?? {}
      if (newId !== undefined) made.set(newId, { app, context })
      for (const cell of found.cells) if (handlers[cell.kind]) cells.push({ cell, app, context, handlers })
      out[i] = found.step
    }
    for (const [app, group] of byApp(cells, ({ app }) => app)) {
      const values = group.map(({ cell: { model, field, kind, bytes }, context }): Value => {
        return { op: 'encrypt', kind, model, field, context, bytes }
      })
      const results = await callHandlers(needed(), group[0]!.handlers, values)
      for (const [i, { cell, context }] of group.entries()) {
        const { kind, model, field } = cell
        cell.put({ app, context, kind, model, field, bytes: results[i]! })
      }
    }
    return out
  }

  /** Whether new values are encrypted with the key of the server, as far as they can be. */
  function sealByKey(cells: readonly Cell[], app: string): boolean {
    const { own } = needed()
    if (!own.encrypts) return false
    for (const cell of cells) {
      const { kind, model, field } = cell
      const bytes = own.seal({ app, kind, model, field, bytes: cell.bytes })
      if (bytes !== null) cell.put({ app, context: {}, kind, model, field, by: 'key', bytes })
    }
    return true
  }

  async function open<T>(read: T, isLenient: boolean): Promise<T> {
    const cells = sealedCells(read)
    for (const { sealed, row } of cells) {
      const { run_id, thread_id, id, kind, app: owner } = row as { [column: string]: unknown }
      const { app, context } = sealed
      if (owner !== undefined && owner !== app) throw fail('internal', `A value of ${app} is in a row of ${owner}`)
      contexts.set(row, context)
      remember(run_id ?? thread_id ?? (kind === CRON_KIND ? id : undefined), { app, context })
    }
    const byHandlers = cells.filter(cell => {
      if (cell.sealed.by !== 'key') return true
      openByKey(cell)
      return false
    })
    for (const [app, group] of byApp(byHandlers, ({ sealed }) => sealed.app))
      try {
        await openOf(app, group)
      } catch (error) {
        // Rows of several applications: those of one without a graph worker must not hold up the others.
        if (!isLenient) throw error
      }
    return read
  }

  function openByKey({ sealed, put }: SealedCell): void {
    try {
      put(needed().own.open(sealed))
    } catch (error) {
      throw error instanceof WeftError ? error : fail('unavailable', (error as Error).message)
    }
  }

  async function openOf(app: string, group: readonly SealedCell[]): Promise<void> {
    const handlers = await handlersOf(needed(), app)
    if (handlers === null) throw fail('unavailable', NO_HANDLERS)
    const values = group.map(({ sealed: { app: _, ...sealed } }): Value => ({ op: 'decrypt', ...sealed }))
    const results = await callHandlers(needed(), handlers, values)
    for (const [i, { put }] of group.entries()) put(results[i]!)
  }

  /** The reads of a noun, which decrypt; those in `raw` are of ids and statuses, and must not depend on the handlers. */
  function opened<Reads extends object>(reads: Reads, raw: readonly (keyof Reads)[] = []): Reads {
    const all = Object.entries(reads) as [string, (...given: unknown[]) => Promise<unknown>][]
    return Object.fromEntries(
      all.map(([name, read]) => {
        if (raw.includes(name as keyof Reads)) return [name, read]
        return [
          name,
          (...given: unknown[]) => {
            const found = read.apply(reads, given)
            return isOn ? found.then(rows => open(rows, false)) : found
          },
        ]
      }),
    ) as Reads
  }
  const records = opened(inner.records)

  return {
    store: {
      ...inner,
      apply: steps => (isOn ? apply(steps) : inner.apply(steps)),
      assistants: opened(inner.assistants),
      threads: opened(inner.threads, ['busy', 'expired']),
      runs: opened(inner.runs, ['unsettled', 'running', 'ready', 'occupied', 'startsDue', 'cancelsDue', 'webhooksDue']),
      checkpoints: opened(inner.checkpoints),
      records: {
        ...records,
        async due(kind, now, limit) {
          const rows = await inner.records.due(kind, now, limit)
          return isOn && kind === CRON_KIND ? open(rows, true) : rows
        },
      },
      items: opened(inner.items, ['expired']),
    },
    plain: inner,
    isOn: () => isOn,
    use(given) {
      deps = given
    },
    async turnOn() {
      if (isOn) return
      await onceInStore(inner, SETTING, () => true)
      isOn = true
    },
    on() {
      isOn = true
    },
    contextOf: row => contexts.get(row) ?? {},
  }
}

const FOREIGN = 'A value looks as if another application had encrypted it: it must be sent in plain form'

/** Throws bad_request for a value that begins as an encrypted one does, and is none. */
function sealedIn(step: Step): SealedCell[] {
  try {
    return sealedCells(step)
  } catch {
    throw fail('bad_request', FOREIGN)
  }
}

const NO_HANDLERS =
  'What is stored is encrypted, and the application has no `encryption`; add it to langgraph.json again to read it'

function byApp<T>(all: readonly T[], appOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const one of all) {
    const group = groups.get(appOf(one)) ?? []
    groups.set(appOf(one), group)
    group.push(one)
  }
  return groups
}
