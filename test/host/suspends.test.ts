import t from 'tap'
import { watchSuspends } from '../../workers/host/guards/node-gate.js'

t.test('a suspend of the machine is noticed by the clocks that go on', async t => {
  const now = { monotonic: 10_000, wall: 1_000_000, boot: 50_000 }
  /** All clocks go on, or only some. */
  const pass = (ms: number, ...names: (keyof typeof now)[]) => {
    for (const name of names.length > 0 ? names : (Object.keys(now) as (keyof typeof now)[])) now[name] += ms
  }
  let uptimes = 0
  const resumedAt = watchSuspends({
    monotonic: () => now.monotonic,
    wall: () => now.wall,
    boot() {
      uptimes++
      return now.boot
    },
  })
  t.equal(resumedAt(), -Infinity)
  pass(60_000)
  t.equal(resumedAt(), -Infinity)
  t.equal(uptimes, 1, 'the uptime is read when the wall clock has jumped only')
  pass(3_600_000, 'wall')
  pass(1_000)
  t.equal(resumedAt(), -Infinity, 'the wall clock was set')
  pass(30_000, 'wall', 'boot')
  pass(1_000)
  const first = now.monotonic
  t.equal(resumedAt(), first)
  pass(1_000)
  t.equal(resumedAt(), first)
  pass(-3_600_000, 'wall')
  t.equal(resumedAt(), first)
  for (let n = 0; n < 3; n++) {
    pass(200, 'wall', 'boot')
    pass(100)
    resumedAt()
  }
  t.equal(resumedAt(), now.monotonic, 'short ones add up')
})
