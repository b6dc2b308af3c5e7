/**
 * All resource workers of a cluster serve one store, because a call reaches any of them. Each store has an id. A starting
 * worker asks the running ones for theirs, and refuses to start beside another store; of two that start at the same time,
 * the later one stops. Once no worker runs, any store may be served.
 */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { v7 } from 'uuid'
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import type { Mux } from '../../bus/mux.js'
import type { Config } from '../../schemas/config.js'
import { isObject } from '../../schemas/json.js'
import { type Build, isBuild, skewOf } from '../../schemas/protocol.js'
import { event } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'
import { clock } from './clock.js'
import { onceInStore } from './rows/record.js'

interface Identity {
  id: string
  /** The store as an operator names it, without credentials. */
  place: string
  started: number
  weft?: Build
}

export interface ServedStore {
  config: Config
  store: Store
  link: Link
  mux: Mux
  life: Lifecycle
  /** Another store is served, by a worker that started earlier. */
  onConflict: (error: Error) => void
}

const SUBJECT = event('store', 'served')
const ANSWER_MS = 2_000

/** Throws an Error with one sentence that names both stores when the cluster serves another one. */
export async function claimCluster({ config, store, link, mux, life, onConflict }: ServedStore): Promise<void> {
  const { value: id } = await onceInStore(store, 'store_id', () => v7())
  const mine: Identity = { id, place: placeOf(config), started: clock.now(), weft: link.build }
  const body = Buffer.from(JSON.stringify(mine))

  /** The conflict with the first running worker that answers, or null. */
  async function ask(): Promise<Error | null> {
    let conflict: Error | null = null
    const onAnswer = ({ headers, data }: { headers?: { code: number }; data: Uint8Array }) => {
      if (headers?.code === 503) return true
      const other = readIdentity(data)
      if (other === null) return false
      conflict = conflictOf(mine, other)
      return true
    }
    await mux.many(SUBJECT, body, onAnswer, ANSWER_MS).catch(() => {})
    return conflict
  }

  const conflict = await ask()
  if (conflict !== null) throw conflict
  const subscription = link.subscribe(SUBJECT, message => {
    const other = readIdentity(message.data)
    if (other === null || message.respond(body)) return
    const conflict = conflictOf(mine, other)
    if (conflict === null) return
    if (isEarlier(other, mine)) onConflict(conflict)
    else announce()
  })
  life.push({ name: 'store identity', stop: () => subscription.unsubscribe() })
  // For workers that asked before this subscription began, or while a connection was lost.
  const announce = () => link.nc.publish(SUBJECT, body)
  announce()
  life.push({ name: 'store identity after a reconnect', quiet: link.onReconnect(announce) })
}

const isEarlier = (one: Identity, other: Identity) =>
  one.started < other.started || (one.started === other.started && one.id < other.id)

function conflictOf(mine: Identity, other: Identity): Error | null {
  const skew = skewOf(
    { what: 'this resource worker', weft: mine.weft },
    { what: 'a resource worker', weft: other.weft },
  )
  if (skew !== null) return Object.assign(new Error(skew), { name: 'StoreRefused' })
  return other.id === mine.id ? null : refusal(mine, other)
}

const refusal = (mine: Identity, other: Identity) =>
  Object.assign(
    new Error(
      `this cluster already serves the store ${other.place} (${other.id}), but this worker has the store ${mine.place} (${mine.id}): use the same store (DATABASE_URI or MONGODB_URL for several workers), stop the other worker, or set NATS_URL to another server`,
    ),
    { name: 'StoreRefused' },
  )

/** The hosts and the database of a server, else the folder on this machine. */
function placeOf({ database_uri, mongodb_url, data }: Config): string {
  const found = /^(mongodb|postgres)(?:\+srv|ql)?:\/\/(?:[^/]*@)?([^?]+)/.exec(database_uri || mongodb_url)
  return found === null ? `${hostname()}:${resolve(data)}` : `${found[1]}://${found[2]}`
}

function readIdentity(data: Uint8Array): Identity | null {
  try {
    const found: unknown = JSON.parse(Buffer.from(data).toString())
    if (!isObject(found)) return null
    const { id, place, started, weft } = found
    return typeof id === 'string' && typeof place === 'string' && typeof started === 'number'
      ? { id, place, started, ...(isBuild(weft) ? { weft } : {}) }
      : null
  } catch {
    return null
  }
}
