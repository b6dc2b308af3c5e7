/** Copies of the embedded store: made while a server writes, checked, put in the place of a store. */
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { claimFolder } from './owner.js'

export interface DatabaseState {
  schema_version: number
  bytes: number
}

/** The task of the thread, and its answer. */
export type Task = { task: 'copy'; from: string; to: string } | { task: 'check'; from: string }
export type Answer = { state: DatabaseState } | { failure: string }

/**
 * Writes the committed rows of a database into a new file, by a read transaction: writers go on. `onBytes` gets the bytes
 * written so far, and about how many there will be. Rejects with one sentence.
 */
export async function copyDatabase(
  from: string,
  to: string,
  onBytes: (done: number, all: number) => void = () => {},
): Promise<DatabaseState> {
  const all = statSync(from).size
  const timer = setInterval(() => onBytes(statSync(to, { throwIfNoEntry: false })?.size ?? 0, all), 100)
  try {
    const state = await inThread({ task: 'copy', from, to })
    chmodSync(to, 0o600)
    return state
  } finally {
    clearInterval(timer)
  }
}

/** Reads the whole file. Rejects with one sentence when it is damaged, or no store that this Weft can read. */
export const checkDatabase = (from: string): Promise<DatabaseState> => inThread({ task: 'check', from })

const FILES = ['weft.db', 'weft.db-wal', 'weft.db-shm', 'nats']

/**
 * Puts a checked copy in the place of the store of a folder. The earlier store and its broker's streams are moved into
 * `aside`: the streams belong to runs that the copy may not know. Throws one sentence while a server has the folder.
 */
export async function replaceDatabase({
  copy,
  folder,
  aside,
  onBytes,
}: {
  copy: string
  folder: string
  aside: string
  /** The same option as that of `copyDatabase`. */
  onBytes?: (done: number, all: number) => void
}): Promise<void> {
  const file = join(folder, 'weft.db')
  const owner = claimFolder(folder, file)
  try {
    const part = join(folder, `${basename(copy)}.part`)
    rmSync(part, { force: true })
    await copyDatabase(copy, part, onBytes)
    for (const name of FILES) {
      if (!existsSync(join(folder, name))) continue
      mkdirSync(aside, { recursive: true, mode: 0o700 })
      renameSync(join(folder, name), join(aside, name))
    }
    renameSync(part, file)
  } finally {
    owner.release()
  }
}

/** Both tasks take seconds for large stores and block their thread. */
function inThread(workerData: Task): Promise<DatabaseState> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('../../programs/sqlite-backup.cjs', import.meta.url), { workerData })
    worker.once('message', (answer: Answer) =>
      'state' in answer ? resolve(answer.state) : reject(new Error(answer.failure)),
    )
    worker.once('error', reject)
  })
}
