/** `npm run fairness`: how long runs of tenants wait for a slot under each rule, as a table. */
import { parseArgs } from 'node:util'
import { boundedTokens, fairSlots, fairStarts, firstComeFirstServed, type Policy, strictPriority } from './policies.js'
import { simulate, workload } from './simulate.js'

const SLOTS = 100

const { values } = parseArgs({ options: { seed: { type: 'string', default: '7' } } })
const runs = workload(Number(values.seed))
const policies: Policy[] = [
  firstComeFirstServed(),
  strictPriority(),
  fairStarts(),
  fairSlots(),
  boundedTokens(SLOTS),
  boundedTokens(SLOTS / 5),
]
const seconds = (value: number) => (value < 10 ? value.toFixed(2) : value.toFixed(0)).padStart(9)

console.log(`${runs.length} runs, ${SLOTS} slots, seed ${values.seed}. Waits in seconds.`)
for (const policy of policies) {
  const begun = process.hrtime.bigint()
  const rows = simulate(runs, SLOTS, policy)
  const cost = Number(process.hrtime.bigint() - begun) / 1_000 / runs.length
  console.log(`\n${policy.name} (${cost.toFixed(1)} µs a run)`)
  console.log('group        runs     mean      p50      p99  longest first run    slots')
  for (const { group, runs: count, mean, p50, p99, longest, first, share } of rows.sort((a, b) =>
    a.group.localeCompare(b.group),
  ))
    console.log(
      `${group.padEnd(9)}${String(count).padStart(8)}${[mean, p50, p99, longest, first].map(seconds).join('')}${`${(share * 100).toFixed(1)} %`.padStart(9)}`,
    )
}
