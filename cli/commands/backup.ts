/**
 * `weft backup` and `weft restore`: the embedded store as a folder with a copy of the database, made while the server
 * runs. The folder of the broker is not in it: wake-ups are made again from the store, and stored events, which are kept
 * for an hour, may belong to runs that an older copy does not know.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { checkDatabase, copyDatabase, replaceDatabase } from '../../store/sqlite/backup.js'
import { isNewOrEmpty, prepareDataFolder } from '../data-folder.js'
import { openProgress } from '../terminal/progress.js'
import { printJson } from '../terminal/text.js'
import { UserError } from '../user-error.js'

interface BackupFlags {
  data: string
  keys?: true
  json?: true
}

/** Files of the data folder that hold generated keys. */
const KEYS = ['encryption.key', 'webhook.secret', 'control.key']
const MANIFEST = 'backup.json'

interface Manifest {
  created_at: string
  schema_version: number
  bytes: number
  keys: string[]
}

export async function backup(target: string, { data, keys, json }: BackupFlags): Promise<void> {
  refuseServer({
    postgres: 'back it up with pg_dump, or the tool of your provider',
    mongo: 'back it up with mongodump, or the tool of your installation',
  })
  const from = join(data, 'weft.db')
  if (!existsSync(from)) throw new UserError(`there is no store in ${resolve(data)}: expected weft.db (--data)`, 2)
  if (!isNewOrEmpty(target)) throw new UserError(`${target} is not empty: expected a new or an empty folder`, 2)
  try {
    mkdirSync(target, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new UserError(`${target} cannot be written: ${(error as Error).message}`)
  }
  const file = join(target, 'weft.db')
  const progress = openProgress('backup')
  try {
    const { schema_version, bytes } = await copyDatabase(from, file, progress.update)
    const present = KEYS.filter(name => existsSync(join(data, name)))
    if (keys) for (const name of present) copyFileSync(join(data, name), join(target, name))
    const manifest: Manifest = {
      created_at: new Date().toISOString(),
      schema_version,
      bytes,
      keys: keys ? present : [],
    }
    // Last: without it the copy may be incomplete.
    writeFileSync(join(target, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 })
    progress.stop()
    if (json) return printJson({ folder: resolve(target), ...manifest })
    process.stdout.write(`${resolve(target)}: ${megabytes(bytes)} MB\n`)
    if (!keys && present.includes('encryption.key'))
      process.stderr.write('without encryption.key, which opens stored secrets: copy it elsewhere, or give --keys\n')
  } catch (error) {
    progress.stop()
    rmSync(file, { force: true })
    throw new UserError(`the store cannot be copied: ${(error as Error).message}`)
  }
}

interface RestoreFlags {
  data: string
  force?: true
  json?: true
}

export async function restore(source: string, { data, force, json }: RestoreFlags): Promise<void> {
  refuseServer({ postgres: 'restore it with pg_restore', mongo: 'restore it with mongorestore' })
  const copy = join(source, 'weft.db')
  if (!existsSync(join(source, MANIFEST)) || !existsSync(copy))
    throw new UserError(`${source} is no backup: expected a folder that \`weft backup\` has completed`, 2)
  const keys = keysOf(source)
  if (existsSync(join(data, 'weft.db')) && !force)
    throw new UserError(`${resolve(data)} has a store: give another --data, or --force to move it aside`, 2)
  prepareDataFolder(data)
  const aside = join(data, `replaced-${new Date().toISOString().replaceAll(':', '-')}`)
  const progress = openProgress('restore')
  try {
    await checkDatabase(copy)
    await replaceDatabase({ copy, folder: resolve(data), aside, onBytes: progress.update })
  } catch (error) {
    throw new UserError(`nothing was restored: ${(error as Error).message}`)
  } finally {
    progress.stop()
  }
  const restored = keys.filter(name => !existsSync(join(data, name)))
  for (const name of restored) copyFileSync(join(source, name), join(data, name))
  const moved = existsSync(aside) ? resolve(aside) : null
  if (json) return printJson({ folder: resolve(data), keys: restored, moved })
  process.stdout.write(`restored into ${resolve(data)}${moved === null ? '' : `; the store before is in ${moved}`}\n`)
}

/** The keys in a backup. Throws a UserError when its manifest is damaged, before anything is changed. */
function keysOf(source: string): string[] {
  const file = join(source, MANIFEST)
  let keys: unknown
  try {
    keys = (JSON.parse(readFileSync(file, 'utf8')) as Partial<Manifest> | null)?.keys
  } catch {
    // Said below.
  }
  if (!Array.isArray(keys) || !keys.every(name => KEYS.includes(name) && existsSync(join(source, name))))
    throw new UserError(`${file} is damaged, or a key that it names is missing`, 2)
  return keys
}

function refuseServer(advice: { postgres: string; mongo: string }): void {
  const { DATABASE_URI, POSTGRES_URI } = process.env
  if (DATABASE_URI || POSTGRES_URI) throw new UserError(`the store is PostgreSQL (DATABASE_URI): ${advice.postgres}`, 2)
  if (process.env.MONGODB_URL) throw new UserError(`the store is MongoDB (MONGODB_URL): ${advice.mongo}`, 2)
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1)
