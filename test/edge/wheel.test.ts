import t from 'tap'
import { openWheel, SLOTS, Slots } from '../../edge/wheel.js'

function beater() {
  const one = { wroteAt: 0, beats: 0, beat: () => void one.beats++ }
  return one
}

t.test('an idle member beats once per turn of the wheel', t => {
  const wheel = new Slots()
  const one = beater()
  wheel.add(one)
  for (let i = 0; i < SLOTS - 1; i++) wheel.turn()
  t.equal(one.beats, 0)
  wheel.turn()
  t.equal(one.beats, 1)
  for (let i = 0; i < SLOTS * 3; i++) wheel.turn()
  t.equal(one.beats, 4)
  t.end()
})

t.test('a member beats one whole period after its last write', t => {
  const wheel = new Slots()
  const one = beater()
  wheel.add(one)
  for (let i = 0; i < 20; i++) wheel.turn()
  one.wroteAt = wheel.tick
  for (let i = 0; i < SLOTS - 1; i++) wheel.turn()
  t.equal(one.beats, 0)
  wheel.turn()
  t.equal(one.beats, 1)
  t.end()
})

t.test('a removed member does not beat, even if it is removed during the turn', t => {
  const wheel = new Slots()
  const second = beater()
  const first = beater()
  first.beat = () => {
    wheel.remove(second)
    return undefined
  }
  wheel.add(first)
  wheel.add(second)
  for (let i = 0; i < SLOTS * 2; i++) wheel.turn()
  t.equal(second.beats, 0)
  wheel.remove(first)
  wheel.remove(first)
  t.end()
})

t.test('members added over a period are spread over the slots', t => {
  const wheel = new Slots()
  const ones = Array.from({ length: 500 }, () => beater())
  ones.forEach((one, i) => {
    wheel.add(one)
    if (i % 10 === 0) wheel.turn()
  })
  let most = 0
  for (let i = 0; i < SLOTS; i++) {
    const before = ones.reduce((sum, one) => sum + one.beats, 0)
    wheel.turn()
    most = Math.max(most, ones.reduce((sum, one) => sum + one.beats, 0) - before)
  }
  t.ok(most <= 10, `${most} in one slot`)
  t.end()
})

t.test('a real wheel turns in its period', async t => {
  const wheel = openWheel(500)
  const one = beater()
  wheel.add(one)
  const started = performance.now()
  while (one.beats < 2) await new Promise(done => setTimeout(done, 10))
  t.ok(performance.now() - started > 900, 'two periods')
  wheel.close()
})

t.test('a real wheel stands still without members, and goes on with the next one', async t => {
  const wheel = openWheel(500)
  t.teardown(wheel.close)
  const first = beater()
  wheel.add(first)
  while (first.beats < 1) await new Promise(done => setTimeout(done, 10))
  wheel.remove(first)
  await new Promise(done => setTimeout(done, 100))
  const { tick } = wheel
  await new Promise(done => setTimeout(done, 300))
  t.equal(wheel.tick, tick)
  t.ok(wheel.now >= performance.now() - 1, 'its time goes on')
  const second = beater()
  wheel.add(second)
  const added = performance.now()
  while (second.beats < 1) await new Promise(done => setTimeout(done, 10))
  t.ok(performance.now() - added > 450, 'a whole period after it was added')
})
