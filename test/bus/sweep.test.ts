import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openSweep } from '../../bus/sweep.js'
import { until } from '../helpers/until.js'

t.test('it looks only while something is left', async t => {
  let left = 3
  let looks = 0
  const sweep = openSweep(5, () => {
    looks++
    return --left > 0
  })
  t.teardown(sweep.close)
  await sleep(50)
  t.equal(looks, 0, 'not before a wake')
  sweep.wake()
  sweep.wake()
  await until(() => left === 0)
  await sleep(50)
  t.equal(looks, 3, 'once in a period, and not after the last')
  left = 1
  sweep.wake()
  await until(() => left === 0)
  t.equal(looks, 4, 'again after a wake')
})

t.test('a look is told the time since the one before, or since the wake', async t => {
  const since: number[] = []
  const sweep = openSweep(10, (_, ms) => since.push(ms) < 2)
  t.teardown(sweep.close)
  await sleep(300)
  const woken = performance.now()
  sweep.wake()
  await until(() => since.length === 2)
  const passed = performance.now() - woken
  t.ok(since[0]! + since[1]! <= passed, 'the time at rest does not count')
})

t.test('a closed one does not look', async t => {
  let looks = 0
  const sweep = openSweep(5, () => {
    looks++
    return true
  })
  sweep.wake()
  await until(() => looks === 2)
  sweep.close()
  await sleep(50)
  t.equal(looks, 2)
})
