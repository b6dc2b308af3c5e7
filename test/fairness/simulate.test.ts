/** Rules that choose the next run: what each of them promises to tenants, in simulated time. */
import t from 'tap'
import {
  boundedTokens,
  fairSlots,
  fairStarts,
  firstComeFirstServed,
  type Policy,
  type Run,
  strictPriority,
} from './policies.js'
import { simulate, workload } from './simulate.js'

const SLOTS = 10

/** Runs of one second each, in the order of acceptance. */
function runsOf(...sent: (Partial<Run> & { tenant: string; at: number })[]): Run[] {
  return sent.map((run, no) => ({ no, group: run.tenant, weight: 1, priority: 0, takes: 1, ...run }))
}

const many = (count: number, run: Partial<Run> & { tenant: string; at: number }) =>
  Array.from({ length: count }, () => run)

const waitsOf = (group: string, runs: readonly Run[], policy: Policy) =>
  simulate(runs, SLOTS, policy).find(row => row.group === group)!

const flooded = runsOf(...many(1_000, { tenant: 'flood', at: 0 }), { tenant: 'late', at: 0.5 })

t.test('a flood delays the first run of another tenant by its whole length, or by one slot', async t => {
  t.equal(waitsOf('late', flooded, firstComeFirstServed()).first, 99.5)
  t.equal(waitsOf('late', flooded, strictPriority()).first, 99.5)
  for (const policy of [fairStarts(), fairSlots(), boundedTokens(SLOTS)])
    t.equal(waitsOf('late', flooded, policy).first, 0.5, policy.name)
})

t.test('runs that take long leave no more slots to their tenant than short ones, by fair slots alone', async t => {
  const mixed = runsOf(...many(200, { tenant: 'long', at: 0, takes: 10 }), ...many(1_000, { tenant: 'short', at: 0 }), {
    tenant: 'last',
    at: 50,
  })
  const shares = (policy: Policy) => waitsOf('long', mixed, policy).share
  t.ok(shares(fairSlots()) < 0.65, 'half of the slots, and all of them in the first ten seconds')
  t.ok(shares(fairStarts()) > 0.8)
})

t.test('a weight of 4 gives four times the slots', async t => {
  const both = runsOf(...many(600, { tenant: 'one', at: 0 }), ...many(600, { tenant: 'four', at: 0, weight: 4 }), {
    tenant: 'last',
    at: 20,
  })
  const rows = simulate(both, SLOTS, fairSlots())
  const share = (group: string) => rows.find(row => row.group === group)!.share
  t.ok(Math.abs(share('four') / share('one') - 4) < 1, `${share('four')} to ${share('one')}`)
})

t.test('a higher priority is served first', async t => {
  const runs = runsOf(...many(100, { tenant: 'low', at: 0 }), { tenant: 'high', at: 0.5, priority: 5 })
  t.equal(waitsOf('high', runs, strictPriority()).first, 0.5)
})

t.test('every rule starts every run of the workload once', async t => {
  const runs = workload(7, 0.02)
  for (const policy of [firstComeFirstServed(), strictPriority(), fairStarts(), fairSlots(), boundedTokens(3)]) {
    const rows = simulate(runs, SLOTS, policy)
    t.equal(
      rows.reduce((sum, row) => sum + row.runs, 0),
      runs.length,
      policy.name,
    )
  }
})
