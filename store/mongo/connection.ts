/**
 * The connection: what is waited for and how long, what a write must reach before it counts, and what of the driver's
 * errors means that the database cannot be used now.
 */
import {
  type CommandStartedEvent,
  type Db,
  MongoAPIError,
  MongoClient,
  type MongoClientOptions,
  MongoError,
  ReadConcern,
} from 'mongodb'
import { fail, WeftError } from '../../schemas/errors.js'
import type { MongoOptions } from '../mongo.js'

const DATABASE = 'weft'

/** A call is answered or refused within this time, also when the server hangs. */
const CALL_MS = 5_000
/** For a server that can be written to; a new primary is elected within a few seconds. */
const SELECT_MS = 2_000

export interface Connection {
  client: MongoClient
  db: Db
  /** One server without a replica set: no retried writes, and what is lost with its disk is lost. */
  standalone: boolean
}

/** Throws one sentence, without the credentials of the URL, when no server answers. */
export async function connect({ url, onCommand }: MongoOptions): Promise<Connection> {
  let client: MongoClient
  try {
    client = new MongoClient(url, optionsFor(url, onCommand !== undefined))
  } catch (error) {
    throw new Error(`MONGODB_URL cannot be used: ${(error as Error).message}`)
  }
  if (onCommand)
    client.on('commandStarted', (event: CommandStartedEvent) => onCommand(event.commandName, event.command))
  const kinds = new Set<string>()
  client.on('serverDescriptionChanged', event => kinds.add(event.newDescription.type))
  try {
    await client.connect()
    await client.db('admin').command({ ping: 1 })
  } catch (error) {
    await client.close()
    throw new Error(`No MongoDB answers at ${hostsOf(url)}: ${(error as Error).message}`)
  }
  const standalone = kinds.has('Standalone')
  // What others may see undone after a change of primary is never read. A single server has nothing to undo.
  const db = client.db(databaseOf(url), standalone ? {} : { readConcern: new ReadConcern('majority') })
  return { client, db, standalone }
}

function optionsFor(url: string, monitorCommands: boolean): MongoClientOptions {
  return {
    appName: 'weft',
    writeConcern: { w: 'majority', journal: true },
    retryReads: true,
    // The driver does not retry writes at a standalone server: it has no way to tell whether they were done.
    retryWrites: true,
    serverSelectionTimeoutMS: SELECT_MS,
    connectTimeoutMS: SELECT_MS,
    timeoutMS: CALL_MS,
    ...(/[?&]maxPoolSize=/i.test(url) ? {} : { maxPoolSize: 50 }),
    ignoreUndefined: true,
    promoteBuffers: true,
    enableUtf8Validation: false,
    monitorCommands,
  }
}

/** The database that the URL names, `weft` when it names none. */
export const databaseOf = (url: string): string =>
  decodeURIComponent(/^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1] ?? '') || DATABASE

/** The hosts of a URL: what may be shown of it. */
export const hostsOf = (url: string): string =>
  /^mongodb(?:\+srv)?:\/\/(?:[^/]*@)?([^/?]+)/.exec(url)?.[1] ?? 'MONGODB_URL'

/**
 * The error as callers know it. What the driver or the server says is `unavailable`: the outcome of the call is not
 * known, it can be repeated. Errors of the program stay what they are.
 */
export function known(error: unknown): unknown {
  if (error instanceof WeftError || !(error instanceof MongoError)) return error
  if (error instanceof MongoAPIError && !/closed|connect/i.test(error.name)) return error
  return fail('unavailable', `The database cannot be used now: ${error.message}`)
}
