/** A broker and a data folder on two small disks, which a row fills. Needs the right to mount. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startNatsProcess } from '../../../cli/nats/process.js'
import { findNatsServer } from '../../../cli/nats/server.js'
import type { Broker } from '../../helpers/nats.js'

export interface SmallDisks extends Broker {
  /** Fills a disk to its last byte, or to this part of its size. */
  fill(disk: 'broker' | 'store', part?: number): void
  free(disk: 'broker' | 'store'): void
  /** The server of the broker runs. */
  isUp(): boolean
}

const MB = 1024 * 1024

/** Why no disk can be mounted here; null: one can. */
export function whyNoMount(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'weft-mount-'))
  try {
    const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], {
      encoding: 'utf8',
    })
    if (status !== 0) return `a file system cannot be mounted here (${stderr?.trim() || 'no mount'})`
    spawnSync('umount', [folder])
    return null
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The embedded store and the broker have a disk of `mb` each. */
export async function startOnSmallDisks(mb: number): Promise<SmallDisks> {
  const data = mkdtempSync(join(tmpdir(), 'weft-disks-'))
  const folders = { store: data, broker: join(data, 'nats') }
  for (const folder of [folders.store, folders.broker]) {
    mkdirSync(folder, { recursive: true })
    const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mb}m`, 'tmpfs', folder], {
      encoding: 'utf8',
    })
    if (status !== 0) throw new Error(`a disk of ${mb} MB cannot be mounted: ${stderr}`)
  }
  const nats = await startNatsProcess({
    server: await findNatsServer(),
    data,
    max_file_store: 1024 * MB,
    restart: false,
  })
  const fileOf = (disk: 'broker' | 'store') => join(folders[disk], 'other-data')
  return {
    data,
    url: nats.urlOf,
    isUp: () => nats.pid() !== null,
    fill(disk, part = 1) {
      const { bavail, blocks, bsize } = statfsSync(folders[disk])
      let left = part < 1 ? Math.max(0, bsize * (bavail - blocks * (1 - part))) : Number.POSITIVE_INFINITY
      const file = openSync(fileOf(disk), 'w')
      try {
        // The last bytes, too.
        for (let size = MB; size >= 1 && left > 0; ) {
          try {
            left -= writeSync(file, Buffer.alloc(Math.ceil(Math.min(size, left))))
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
            size = Math.floor(size / 2)
          }
        }
      } finally {
        closeSync(file)
      }
    },
    free: disk => rmSync(fileOf(disk), { force: true }),
    async stop() {
      await nats.stop()
      for (const folder of [folders.broker, folders.store]) spawnSync('umount', ['-l', folder])
      rmSync(data, { recursive: true, force: true })
    },
  }
}
