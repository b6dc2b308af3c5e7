/** The rules that all drivers share: which revisions end, and what one that fails leaves undone. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Log } from '../../bus/log.js'
import type { ActiveDeployment } from '../../schemas/deploy-calls.js'
import { Fault, Stopped } from '../../workers/deploy/fault.js'
import { keepEach, openDrains, surplus } from '../../workers/deploy/fleet.js'

const active = (revision_id: string, deploying_revision_id: string | null = null) =>
  ({ revision_id, deploying_revision_id }) as ActiveDeployment
const one = { deployment_id: 'd1', revision_id: 'r1' }

function openLog() {
  const warnings: string[] = []
  const warn = ({ revision_id, err }: { revision_id: string; err: Error }) =>
    warnings.push(`${revision_id}: ${err.message}`)
  return { warnings, log: { info() {}, warn } as unknown as Log }
}

t.test('a revision that is neither active nor deployed is surplus', async t => {
  const isSurplus = surplus([active('r1', 'r2'), active('r3')], new Set(['r4']))
  t.same(['r1', 'r2', 'r3', 'r4', 'r5'].filter(isSurplus), ['r5'])
  t.ok(surplus([], new Set())('r1'), 'also when none is active')
})

t.test('a revision that cannot be kept stops no other one', async t => {
  const { log, warnings } = openLog()
  const kept: string[] = []
  await keepEach([active('r1'), active('r2')], log, async ({ revision_id }) => {
    if (revision_id === 'r1') throw new Fault('no engine')
    kept.push(revision_id)
  })
  t.same(kept, ['r2'])
  t.same(warnings, ['r1: no engine'])
})

t.test('a drain in progress is not begun again, and one that has failed is', async t => {
  const { log, warnings } = openLog()
  const drain = openDrains(log)
  let fail = (_: Error) => {}
  const waiting = new Promise<void>((_, reject) => {
    fail = reject
  })
  const begun: string[] = []
  const begin = (name: string, work: () => Promise<void>) =>
    drain(one, async () => {
      begun.push(name)
      await work()
    })
  begin('first', () => waiting)
  begin('second', async () => {})
  t.same(begun, ['first'])
  fail(new Fault('no engine'))
  await turn()
  begin('third', async () => {
    throw new Stopped('the worker stops')
  })
  await turn()
  t.same(begun, ['first', 'third'])
  t.same(warnings, ['r1: no engine'], 'a stop is no failure')
})
