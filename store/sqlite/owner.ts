/**
 * One process owns a data folder. The owner is who holds the kernel's lock on `weft.owner` (an empty SQLite file with
 * an open exclusive transaction): it ends with the process, so neither a reused process id nor one of another
 * container misleads. `weft.lock` names the owner for people, and tells the next one that the last did not close.
 *
 * Nothing else in the process may open `weft.owner`: closing any descriptor of a file drops its POSIX locks.
 */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Libsql from 'libsql'

export interface Owner {
  /** The last owner left without closing. */
  unclean: boolean
  release(): void
}

/** Takes the folder, or throws one sentence when another process (or this one already) has it. */
export function claimFolder(folder: string, file: string): Owner {
  const note = join(folder, 'weft.lock')
  const lock = new Libsql(join(folder, 'weft.owner'))
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error
    throw new Error(`The data folder ${folder} is in use by another Weft${ownerIn(note)}`)
  }
  const unclean = existsSync(note) || (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
  writeFileSync(note, `${process.pid}\n`)
  return {
    unclean,
    release() {
      rmSync(note, { force: true })
      lock.close()
    },
  }
}

function ownerIn(note: string): string {
  try {
    return ` (process ${Number.parseInt(readFileSync(note, 'utf8'), 10)})`
  } catch {
    return ''
  }
}
