/**
 * Finds processes of commands by a variable in their environment, which children inherit: also those that have left the
 * process group (setsid, daemons). A process that clears its environment is not found, and only Linux shows the
 * environment of processes.
 */
import { readdir, readFile } from 'node:fs/promises'

export const MARK = 'WEFT_BUILD_MARK'
/** Processes may start others while they are looked for. */
const ROUNDS = 10

/** Kills all processes of this user whose mark begins with `mark`. */
export async function killMarked(mark: string): Promise<void> {
  if (process.platform !== 'linux') return
  const wanted = `${MARK}=${mark}`
  for (let round = 0; round < ROUNDS; round++) {
    const found = await findMarked(wanted)
    if (found.length === 0) return
    for (const pid of found) kill(pid)
  }
}

async function findMarked(wanted: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async pid => {
      // Ended meanwhile, or of another user. A zombie has no environment.
      const environ = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')
      return environ.split('\0').some(variable => variable.startsWith(wanted)) ? Number(pid) : null
    }),
  )
  return found.filter(pid => pid !== null)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}
