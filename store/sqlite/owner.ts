/**
 * One process owns a data folder: the one with the kernel's lock on `weft.owner` (an empty SQLite file with an open
 * exclusive transaction). The lock ends with the process, so a reused process id or one of another container cannot
 * mislead. `weft.lock` names the owner for people, and shows the next owner that the last one did not close.
 *
 * Nothing else in the process may open `weft.owner`: closing any descriptor of a file drops its POSIX locks.
 */
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Libsql from 'libsql'

interface Owner {
  /** The last owner ended without closing. */
  unclean: boolean
  release(): void
}

/** Locks the folder, or throws one sentence when a process (this one included) has locked it. */
export function claimFolder(folder: string, file: string): Owner {
  const note = join(folder, 'weft.lock')
  const owner = join(folder, 'weft.owner')
  // Before the lock is taken: closing a descriptor of the file drops it.
  if (!existsSync(owner)) closeSync(openSync(owner, 'a', 0o600))
  const lock = new Libsql(owner)
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error
    throw new Error(`The data folder ${folder} is in use by another Weft${ownerIn(note)}`)
  }
  const unclean = existsSync(note) || (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
  writeFileSync(note, `${process.pid}\n`, { mode: 0o600 })
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
