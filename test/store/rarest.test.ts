/** Which condition of a search is followed on the embedded store: the rarest, without counting the common ones. */
import t from 'tap'
import { fewest } from '../../store/sqlite/query.js'

/** Queries that find `rows` rows, and the rows that were counted for each. */
function table(...rows: number[]) {
  const queries = rows.map((count, i) => ({ sql: `q${i}`, params: [i, count] }))
  const counted = rows.map(() => 0)
  const get = (_: string, [i, count, limit]: unknown[]) => {
    const seen = Math.min(count as number, limit as number)
    counted[i as number]! += seen
    return [seen]
  }
  const find = (most?: number) => fewest({ get: get as never, all: () => [] }, queries, most)?.sql ?? null
  return { find, counted }
}

t.test('the query that finds the fewest rows', async t => {
  t.equal(table(1_000, 3, 5).find(), 'q1')
  t.equal(table(1_000, 40, 500).find(), 'q1')
  t.equal(table(2_000).find(), 'q0')
  t.equal(table(2_001, 5_000).find(), null)
  t.equal(table(2_001, 5_000).find(3_000), 'q0')
  t.equal(table().find(), null)
})

t.test('rows of common conditions are not counted beside a rare one', async t => {
  for (const rows of [
    [1_000_000, 1, 1_000_000],
    [1, 1_000_000],
  ]) {
    const { find, counted } = table(...rows)
    t.equal(find(), `q${rows.indexOf(1)}`)
    t.ok(Math.max(...counted) < 100, `${counted} rows`)
  }
})
