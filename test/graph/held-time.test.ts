import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openHeldTime } from '../../workers/graph/held-time.js'

const about = (value: number, expected: number) => value >= expected && value < expected + 500

t.test('the time of a slot is not its own while another holds the loop', async t => {
  const held = openHeldTime()
  t.equal(held.byOthers(1), 0)
  t.equal(held.now(), 0)
  held.hold(1, 100)
  held.hold(1, 1_000)
  t.ok(about(held.now(), 1_000))
  t.equal(held.byOthers(1), 0)
  t.ok(about(held.byOthers(2), 1_000), 'also before it is over')
  await sleep(50)
  held.free()
  t.ok(about(held.byOthers(2), 1_049), 'up to its end')
  t.equal(held.now(), 0)
  held.hold(2, 300)
  t.ok(about(held.byOthers(1), 300))
  t.ok(about(held.byOthers(3), 1_349))
  held.hold(1, 100)
  held.hold(1, 50)
  held.free()
  t.ok(about(held.byOthers(2), 1_199), 'two times of one slot are two')
  t.ok(about(held.byOthers(3), 1_499))
})

t.test('a host that names slots without end is remembered in part', async t => {
  const held = openHeldTime()
  for (let slot = 1; slot <= 50_000; slot++) held.hold(slot, 100)
  t.equal(held.size(), 10_000)
})
