/**
 * The environments that Weft has made in its cache: the ones that were used last are kept. One is never removed while a
 * process executes its interpreter, nor within an hour of its last use.
 */
import { readdir, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { erase } from './user-tree.js'

const KEPT = 8
const MIN_AGE_MS = 60 * 60_000
/** Being made, or being removed, by a process that has ended since. */
const isDraft = (name: string): boolean => name.includes('.')

interface PruneOptions {
  /** Is about to be used. */
  keep: string
  kept?: number
  min_age_ms?: number
}

/** Resolves to the removed folders. */
export async function pruneEnvironments(
  cache: string,
  { keep, kept = KEPT, min_age_ms = MIN_AGE_MS }: PruneOptions,
): Promise<string[]> {
  const found = await Promise.all(
    (await readdir(cache)).map(async name => {
      const used_at = await stat(join(cache, name)).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0,
      )
      return { folder: join(cache, name), used_at, isDraft: isDraft(name) }
    }),
  )
  const whole = found.filter(({ isDraft }) => !isDraft).sort((a, b) => b.used_at - a.used_at)
  const surplus = [...whole.slice(kept), ...found.filter(({ isDraft }) => isDraft)]
  const old = surplus.filter(({ folder, used_at }) => folder !== keep && used_at < Date.now() - min_age_ms)
  if (old.length === 0) return []
  const running = await commandLines()
  const unused = old.filter(({ folder }) => !running.some(line => line.startsWith(`${folder}/`)))
  for (const { folder, isDraft } of unused) {
    // In one step: a start that finds half of an environment would use it.
    const draft = isDraft ? folder : `${folder}.removed`
    if (!isDraft) await rename(folder, draft)
    await erase(draft)
  }
  return unused.map(({ folder }) => folder)
}

/** The command lines of all processes of this machine: interpreters are started by their path in the environment. */
async function commandLines(): Promise<string[]> {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  return Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
}
