/** A PostgreSQL server (scripts/postgres/server.ts) with a database per use. It ends with the test process. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { type PostgresProcess, startPostgresProcess } from '../../../scripts/postgres/process.js'
import { findPostgres, type PostgresWay } from '../../../scripts/postgres/server.js'

export interface TestPostgres {
  /** The name of the server, with its version. */
  name: string
  /** The URL of a new database; `stop` removes it. */
  url(): Promise<string>
  stop(): Promise<void>
}

/** The server of WEFT_TEST_DATABASE_URI when it is set, else one that is started. */
export async function startPostgres(): Promise<TestPostgres> {
  const way = findPostgres()
  const server = way.kind === 'url' ? null : await startPostgresProcess(way)
  const admin = way.kind === 'url' ? way.url : server!.url('postgres')
  const made: string[] = []
  return {
    name: way.kind === 'url' ? await nameOf(way.url) : way.name,
    async url() {
      const database = `weft_test_${randomUUID().replaceAll('-', '')}`
      await ask(admin, `CREATE DATABASE ${database}`)
      made.push(database)
      const url = new URL(admin)
      url.pathname = `/${database}`
      return url.href
    },
    async stop() {
      if (server !== null) return server.stop()
      for (const database of made) await ask(admin, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
    },
  }
}

/** A server that the test may kill. */
export const startOwnPostgres = (
  ...how: Parameters<typeof startPostgresProcess> extends [unknown, ...infer Rest] ? Rest : never
): Promise<PostgresProcess> => startPostgresProcess(ownPostgres(), ...how)

/** The programs of such a server. */
export function ownPostgres(): PostgresWay & { kind: 'own' } {
  const way = findPostgres({ own: true })
  if (way.kind === 'url') throw new Error('a server that is not ours cannot be killed')
  return way
}

const nameOf = async (url: string): Promise<string> => `PostgreSQL ${(await ask(url, 'SHOW server_version'))[0]![0]}`

async function ask(url: string, text: string): Promise<string[][]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query<string[]>({ text, rowMode: 'array' })
    return rows
  } finally {
    await client.end()
  }
}
