import t from 'tap'
import { validateHeartbeat } from '../../schemas/calls.js'

t.test('a validator stops at the first errors', async t => {
  const bad = { worker: 'w', runs: Array.from({ length: 100_000 }, () => ({})) }
  const result = validateHeartbeat(bad)
  if (result.success) return t.fail('it is no heartbeat')
  t.equal(result.errors.length, 100)
  t.equal(result.errors[0]!.path, '$input.runs[0].run_id')
})

t.test('an error of a member stands for its parents', async t => {
  const result = validateHeartbeat({ worker: 7, runs: [{ run_id: 'r', token: 'x' }, { run_id: 'r' }] })
  t.same(result.success ? [] : result.errors.map(({ path }) => path), ['$input.worker', '$input.runs[1].token'])
})
