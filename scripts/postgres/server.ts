/**
 * The programs of a PostgreSQL server for tests: `postgres` on PATH, else the newest one in Debian's folder.
 * WEFT_TEST_DATABASE_URI names a server that runs already.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

const DEBIAN = '/usr/lib/postgresql'
/** PostgreSQL refuses to run as root. */
const USER = 'postgres'

export type PostgresWay = { kind: 'url'; url: string } | { kind: 'own'; name: string; bin: string }

/** Throws an Error with one sentence that names the choices. `own`: a server that is started here, so that it can be killed. */
export function findPostgres({ env = process.env, own = false } = {}): PostgresWay {
  const given = env.WEFT_TEST_DATABASE_URI
  if (given && !own) return { kind: 'url', url: given }
  const folders = [...(env.PATH ?? '').split(delimiter), ...inDebian()]
  const found = folders.find(
    folder => folder !== '' && ['postgres', 'initdb'].every(name => existsSync(join(folder, name))),
  )
  if (found === undefined)
    throw new Error(
      'no PostgreSQL server was found for the tests: set DATABASE_URI to one, or put postgres and initdb on PATH, ' +
        'or install it (`apt-get install postgresql`), or leave these tests out with --embedded-only',
    )
  // PATH may have links to some of the programs.
  const bin = dirname(realpathSync(join(found, 'postgres')))
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' })
  return { kind: 'own', name: `PostgreSQL ${/\d[\d.]*/.exec(version)?.[0] ?? ''}`, bin }
}

/** Newest first. */
const inDebian = (): string[] =>
  (existsSync(DEBIAN) ? readdirSync(DEBIAN) : [])
    .sort((a, b) => Number(b) - Number(a))
    .map(version => join(DEBIAN, version, 'bin'))

/** The command with the rights of a user that may run the server. */
export const asServerUser = (command: readonly string[]): string[] =>
  process.getuid?.() === 0
    ? ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--init-groups', ...command]
    : [...command]

/** The ids of that user, for its folders; null: this process is it. */
export function serverUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null
  const [uid, gid] = ['-u', '-g'].map(flag => Number(execFileSync('id', [flag, USER], { encoding: 'utf8' })))
  return { uid: uid!, gid: gid! }
}
