/** Refuses new runs while the disk of the embedded store is almost full: those which exist need the rest to end. */
import { type DiskSpace, diskSpace } from '../../bus/figures.js'
import type { Log } from '../../bus/log.js'
import { type Config, isEmbedded } from '../../schemas/config.js'
import { fail } from '../../schemas/errors.js'
import type { Store } from '../../store/port.js'

export interface Disk {
  /** Throws `unavailable` while the disk has no space for new runs. */
  expectRoom(): void
}

const LOOK_MS = 1_000
const MB = 1024 * 1024
/** A small disk keeps this part of its size free. */
const PART = 0.1
const FULL =
  'The disk of the server is almost full: new runs are accepted again when it has space (WEFT_MIN_FREE_MB of the resource worker)'

/**
 * Looks at the disk now and each second until `stop`. With a database server, or a limit of 0, nothing is refused: what the folder of a
 * resource worker holds then does not grow with runs.
 */
export async function watchDisk(
  { data, min_free_mb, ...config }: Pick<Config, 'data' | 'database_uri' | 'mongodb_url' | 'min_free_mb'>,
  store: Pick<Store, 'reusable'>,
  log: Log,
  spaceOf: (folder: string) => Promise<DiskSpace> = diskSpace,
): Promise<Disk & { stop(): void }> {
  let isFull = false
  const look = async () => {
    const space = await spaceOf(data)
    const limit = Math.min(min_free_mb * MB, space.size * PART)
    // The file of the store does not shrink: what removed rows have left counts as free.
    const free = space.free < limit ? space.free + (await store.reusable()) : space.free
    if (free < limit !== isFull) report(free, limit)
    isFull = free < limit
  }
  const report = (free: number, limit: number) => {
    const fields = { free_mb: Math.floor(free / MB), limit_mb: Math.ceil(limit / MB), folder: data }
    if (free < limit) log.warn(fields, 'the disk of the store is almost full: new runs are refused')
    else log.info(fields, 'the disk of the store has space again: new runs are accepted')
  }
  const isWatched = isEmbedded(config) && min_free_mb > 0
  let timer: NodeJS.Timeout | undefined
  const again = () => {
    timer = setTimeout(() => void lookSafely().then(() => timer !== undefined && again()), LOOK_MS).unref()
  }
  // A look that fails says nothing about the disk, and the writes of the store have errors of their own.
  const lookSafely = () => look().catch(error => log.debug({ err: error }, 'the disk could not be looked at'))
  if (isWatched) {
    await lookSafely()
    again()
  }
  return {
    expectRoom() {
      if (isFull) throw fail('unavailable', FULL)
    },
    stop() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
