/** One process owns a data folder. The lock names its process; one whose process is gone is taken over. */
import { openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface FolderLock {
  /** The last owner went without closing. */
  unclean: boolean
  release(): void
}

/** Locks the folder, or throws an Error with one sentence naming the owner. */
export function lockFolder(folder: string): FolderLock {
  const path = join(folder, 'weft.lock')
  const mine = `${process.pid} ${startOf(process.pid)}`
  let unclean = false
  for (;;) {
    try {
      const file = openSync(path, 'wx', 0o600)
      writeFileSync(file, mine)
      return { unclean, release: () => readOwner(path) === mine && rmSync(path, { force: true }) }
    } catch (error) {
      if ((error as { code?: string }).code !== 'EEXIST') throw error
    }
    const [pid = 0, start = ''] = (readOwner(path) ?? '')
      .split(' ')
      .map((part, i) => (i === 0 ? Number(part) : part)) as [number?, string?]
    if (pid > 0 && isAlive(pid) && startOf(pid) === start)
      throw new Error(`the data folder ${folder} belongs to process ${pid}; stop it first or choose another folder`)
    unclean = true
    rmSync(path, { force: true })
  }
}

function readOwner(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as { code?: string }).code === 'EPERM'
  }
}

/** When the process started, where the system tells (Linux): a pid that was given again is not the owner. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
