/**
 * The connection: its timeouts, the durability of a write, and the errors of the driver that mean that the database
 * cannot be used at the moment.
 */
import {
  type Db,
  MongoClient,
  type MongoClientOptions,
  MongoError,
  MongoInvalidArgumentError,
  MongoParseError,
  MongoServerError,
  ReadConcern,
} from 'mongodb'
import './driver-sockets.js'

const DATABASE = 'weft'

/** Wait for a writable server; a new primary is elected within a few seconds. */
const SELECT_MS = 2_000
/** A hanging server is detected this long after its last answer, plus the time to connect; calls to it end then. */
const WATCH_MS = 2_000
/** Wait for one answer: removing a long thread takes the longest. */
const ANSWER_MS = 30_000
/** Wait for a majority to have a write on its disks. */
const DURABLE_MS = 10_000

interface Connection {
  client: MongoClient
  db: Db
  /** One server without a replica set: writes are not retried, and a lost disk loses the data. */
  standalone: boolean
}

/** Throws one sentence, without the credentials of the URL, when no server answers. */
export async function connect({ url, onCommand }: MongoOptions): Promise<Connection> {
  const client = clientOf(url, { ...optionsFor(url), monitorCommands: onCommand !== undefined })
  if (onCommand) client.on('commandStarted', event => onCommand(event.commandName, event.command))
  const kinds = new Set<string>()
  client.on('serverDescriptionChanged', event => kinds.add(event.newDescription.type))
  await answers(client, url)
  const standalone = kinds.has('Standalone')
  // Never reads what a change of primary may undo. A single server undoes nothing.
  const db = client.db(databaseOf(url), standalone ? {} : { readConcern: new ReadConcern('majority') })
  return { client, db, standalone }
}

/** For work that takes its time: making an index of a large collection. */
export async function patiently(url: string, work: (db: Db) => Promise<void>): Promise<void> {
  const { writeConcern, ...options } = optionsFor(url)
  const patient = { ...options, writeConcern: { ...writeConcern, wtimeoutMS: 0 } } as MongoClientOptions
  const client = clientOf(url, { ...patient, socketTimeoutMS: 0, maxPoolSize: 1 })
  try {
    await answers(client, url)
    await work(client.db(databaseOf(url)))
  } finally {
    await client.close()
  }
}

export function clientOf(url: string, options: MongoClientOptions): MongoClient {
  try {
    return new MongoClient(url, options)
  } catch (error) {
    throw new Error(`MONGODB_URL cannot be used: ${(error as Error).message}`)
  }
}

async function answers(client: MongoClient, url: string): Promise<void> {
  try {
    await client.connect()
    await client.db('admin').command({ ping: 1 })
  } catch (error) {
    await client.close()
    throw new Error(`No MongoDB answers at ${hostsOf(url)}: ${(error as Error).message}`)
  }
}

/** Options of the URL win, except over those that the promises rest on. */
export function optionsFor(url: string): MongoClientOptions {
  const named = new Set(
    [...(url.split('?')[1] ?? '').matchAll(/(?:^|&)(\w+)=/g)].map(([, name]) => name!.toLowerCase()),
  )
  const usual = Object.entries(DEFAULTS).filter(([name]) => !named.has(name.toLowerCase()))
  return { ...Object.fromEntries(usual), ...FORCED }
}

const DEFAULTS: MongoClientOptions = {
  appName: 'weft',
  retryReads: true,
  // The driver does not retry at a standalone server, which does not record whether a write was done. Amazon DocumentDB has
  // no retryable writes: its URLs say retryWrites=false.
  retryWrites: true,
  serverSelectionTimeoutMS: SELECT_MS,
  connectTimeoutMS: SELECT_MS,
  heartbeatFrequencyMS: WATCH_MS,
  socketTimeoutMS: ANSWER_MS,
  waitQueueTimeoutMS: ANSWER_MS,
  maxPoolSize: 50,
}
const FORCED: MongoClientOptions = {
  writeConcern: { w: 'majority', journal: true, wtimeoutMS: DURABLE_MS },
  // A secondary may lag: a run would go on from an older checkpoint.
  readPreference: 'primary',
  ignoreUndefined: true,
  promoteBuffers: true,
  enableUtf8Validation: false,
}

/** The database that the URL names, `weft` when it names none. */
export const databaseOf = (url: string): string =>
  decodeURIComponent(/^mongodb(?:\+srv)?:\/\/[^/]*\/([^?]+)/.exec(url)?.[1] ?? '') || DATABASE

/** The hosts of a URL, without credentials. */
export const hostsOf = (url: string): string =>
  /^mongodb(?:\+srv)?:\/\/(?:[^/]*@)?([^/?]+)/.exec(url)?.[1] ?? 'MONGODB_URL'

/** The server's error codes for a command that is wrong or not allowed, whenever it is sent. */
const WRONG = new Set([2, 9, 13, 14, 17, 18, 28, 31, 40, 52, 54, 56, 57, 66, 72, 10334])

/**
 * Whether the database cannot be used now: the outcome of the call is not known, it can be repeated. All that the
 * driver throws, but for what says that we ask for something wrong; and what Node.js says of a socket that breaks, or has
 * just been closed by the server, while a command is written, which the driver passes on as it is.
 */
export const isOutage = (error: unknown): error is Error =>
  error instanceof MongoError
    ? !(error instanceof MongoInvalidArgumentError || error instanceof MongoParseError) &&
      !(error instanceof MongoServerError && WRONG.has(Number(error.code)))
    : error instanceof Error && ('syscall' in error || ('code' in error && CLOSED.has(`${error.code}`)))

/** Codes of a socket that is closed already: no system call is made any more (https://nodejs.org/api/errors.html). */
const CLOSED = new Set(['EPIPE', 'ERR_STREAM_DESTROYED', 'ERR_STREAM_WRITE_AFTER_END', 'ERR_SOCKET_CLOSED'])

export interface MongoOptions {
  /** mongodb://… or mongodb+srv://…; the database `weft` when it names none. */
  url: string
  log?: { info(data: object, message: string): void; warn(data: object, message: string): void }
  /** Sees every command that is sent; for tests. */
  onCommand?: (name: string, command: { [field: string]: unknown }) => void
}
