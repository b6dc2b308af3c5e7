/**
 * Fetches the uploaded source of a revision from the resource workers, a part at a time, and unpacks it (decision 054).
 * A repeat reads the same bytes: an upload never changes.
 */
import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeployTask, SourceOf } from '../../../schemas/deploy-calls.js'
import { WeftError } from '../../../schemas/errors.js'
import { Fault } from '../fault.js'
import type { Say } from './command.js'
import { type Fetched, hashOf, MAX_TREE } from './fetch.js'
import { unpack } from './unpack.js'

/** How a deploy worker reads uploads. */
export interface Uploads {
  find(task: DeployTask): Promise<SourceOf>
  part(task: DeployTask, part: number): Promise<Uint8Array>
}

const MAX_ENTRIES = 100_000

interface Fetch {
  task: DeployTask
  uploads: Uploads
  /** Existing folder of this attempt, for `tree`. */
  work: string
  /** Bytes that the unpacked source may have. */
  most: number
}

/** Throws a Fault; it is retryable when the resource workers could not be reached, or sent other bytes. */
export async function fetchUpload(
  { task, uploads, work, most }: Fetch,
  signal: AbortSignal,
  say: Say,
): Promise<Fetched> {
  const tree = join(work, 'tree')
  await mkdir(tree)
  try {
    const { size, sha256, parts } = await uploads.find(task)
    const digest = createHash('sha256')
    async function* archive() {
      for (let n = 0; n < parts; n++) {
        const bytes = await uploads.part(task, n)
        digest.update(bytes)
        yield bytes
      }
    }
    const limits = { bytes: Math.min(most, MAX_TREE), entries: MAX_ENTRIES }
    const { files } = await unpack(archive(), tree, limits, signal)
    if (digest.digest('hex') !== sha256) throw new Fault('fetch: the upload arrived with another digest', true)
    say('INFO', `unpacked ${files} files of ${size} bytes, sha256 ${sha256}`)
  } catch (error) {
    if (!(error instanceof WeftError) || error.code === 'fenced') throw error
    throw new Fault(`fetch: ${error.message}`, error.code === 'unavailable')
  }
  // Not that of the archive: it holds times, and the same files are the same artefact.
  return { tree, commit: null, content: await hashOf(tree) }
}
