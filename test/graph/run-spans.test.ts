/** Which runs a graph worker records. */
import t from 'tap'
import { openRunSpans } from '../../workers/graph/run-spans.js'
import type { ActiveRun } from '../../workers/graph/run-table.js'

const run = (n: number, attempt = 1) => ({ run_id: `r${n}`, lease: { attempt } }) as unknown as ActiveRun
const link = {} as Parameters<typeof openRunSpans>[0]

t.test('at most 50 runs in a second, and every further attempt', async t => {
  let time = 0
  const spans = openRunSpans(link, null, true, () => time)
  const recorded = () => Array.from({ length: 200 }, (_, n) => spans.wants(run(n))).filter(Boolean).length
  t.equal(recorded(), 50)
  t.equal(recorded(), 0)
  t.equal(spans.wants(run(1, 2)), true, 'another attempt')
  time = 500
  t.equal(recorded(), 25)
  time = 60_000
  t.equal(recorded(), 50, 'a pause is not saved up')
})

t.test('none without a lifetime', async t => {
  t.equal(openRunSpans(link, null, false).wants(run(1, 2)), false)
})
