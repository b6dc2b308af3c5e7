/** Fills tables of a store in PostgreSQL with many rows at once: copies of one row in which some columns differ. */
import type { ClientBase } from 'pg'

/**
 * Copies the row of `weft.<table>` that `model` finds, for `n` from 1 to `count`. `set`: an SQL expression of `n` for each
 * column that differs. Triggers are not called.
 */
export async function copies(
  client: ClientBase,
  table: string,
  model: string,
  count: number,
  set: { readonly [column: string]: string },
): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'weft' AND table_name = $1",
    [table],
  )
  const names = rows.map(({ name }) => name)
  const values = names.map(name => set[name] ?? `model."${name}"`)
  await client.query('BEGIN')
  // The triggers that keep keys would be called for each row.
  await client.query('SET LOCAL session_replication_role = replica')
  await client.query(
    `INSERT INTO weft.${table} (${names.map(name => `"${name}"`)})
      SELECT ${values} FROM (SELECT * FROM weft.${table} WHERE ${model}) AS model, generate_series(1, ${count}) AS n`,
  )
  await client.query('COMMIT')
}

/** Writes the keys of rows that `copies` has made; `columns` as the tables of keys name them, beside the key. */
export async function keysOfCopies(client: ClientBase, table: 'thread' | 'assistant' | 'item'): Promise<void> {
  const [to, from] = {
    thread: ['key, thread_id', 'unnest(keys), thread_id'],
    assistant: ['app, key, assistant_id', 'app, unnest(keys), assistant_id'],
    item: ['app, key, path, item', 'app, unnest(keys), path, key'],
  }[table] as [string, string]
  await client.query(`INSERT INTO weft.${table}_keys (${to}) SELECT ${from} FROM weft.${table}s ON CONFLICT DO NOTHING`)
}
