/** The thread of a copy or a check (backup.ts). */
import { existsSync, statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import Libsql, { type Database } from 'libsql'
import type { Answer, DatabaseState, Task } from './backup.js'
import { SCHEMA_VERSION } from './schema.js'

function carryOut(task: Task): DatabaseState {
  if (!existsSync(task.from)) throw new Error(`there is no ${task.from}`)
  const db = new Libsql(task.from)
  try {
    db.pragma('busy_timeout = 5000')
    const schema_version = number(db, 'PRAGMA user_version')
    if (schema_version === 0) throw new Error(`${task.from} is no store of Weft`)
    if (schema_version > SCHEMA_VERSION)
      throw new Error(`${task.from} has schema version ${schema_version}, this Weft knows up to ${SCHEMA_VERSION}`)
    if (task.task === 'copy') {
      db.prepare('VACUUM INTO ?').run([task.to])
      return { schema_version, bytes: statSync(task.to).size }
    }
    const [found] = db.prepare('PRAGMA quick_check(1)').raw().get([]) as [string]
    if (found !== 'ok') throw new Error(`${task.from} is damaged: ${found}`)
    return { schema_version, bytes: statSync(task.from).size }
  } finally {
    db.close()
  }
}

const number = (db: Database, sql: string): number => (db.prepare(sql).raw().get([]) as [number])[0]

let answer: Answer
try {
  answer = { state: carryOut(workerData as Task) }
} catch (error) {
  answer = { failure: (error as Error).message }
}
parentPort!.postMessage(answer)
