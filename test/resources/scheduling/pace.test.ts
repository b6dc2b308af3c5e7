/** The arithmetic of rates: intervals, bursts, rests. */
import t from 'tap'
import type { Rate } from '../../../schemas/auth/scheduling.js'
import { afterStart, freeAt, paceOf, restsAt, startsAt } from '../../../workers/resources/scheduling/pace.js'

const NOW = 1_790_000_000_000

/** The times at which runs that all wait since `from` start, one as soon as it may. */
function startsOf(rate: Rate, count: number, from = NOW): number[] {
  const pace = paceOf(rate)
  const found: number[] = []
  for (let now = from, until = 0; found.length < count; now = Math.max(now, freeAt(pace, until))) {
    if (startsAt(pace, until, now) === 0) t.fail(`no run may start at ${now}, the time that was named`)
    if (now > (found.at(-1) ?? now) && startsAt(pace, until, now - 1) > 0) t.fail(`a run may start before ${now}`)
    found.push(now)
    until = afterStart(pace, until, now)
  }
  return found
}

t.test('starts are evenly apart, also where no whole milliseconds are between them', async t => {
  t.same(
    startsOf({ max: 3, per: '1s' }, 7).map(at => at - NOW),
    [0, 333, 666, 1_000, 1_333, 1_666, 2_000],
  )
  t.same(
    startsOf({ max: 100, per: '1m' }, 3).map(at => at - NOW),
    [0, 600, 1_200],
  )
})

t.test('a burst starts at once, and then the rate holds', async t => {
  t.same(
    startsOf({ max: 10, per: '1s', burst: 4 }, 7).map(at => at - NOW),
    [0, 0, 0, 0, 100, 200, 300],
  )
})

t.test('no window of the time has more than max and the burst less one', async t => {
  for (const rate of [
    { max: 7, per: '1s' },
    { max: 7, per: '1s', burst: 3 },
    { max: 1_000, per: '3s', burst: 1_000 },
    { max: 2_500, per: '1s' },
  ]) {
    const starts = startsOf(rate, 4_000)
    const ms = Number(rate.per.slice(0, -1)) * 1_000
    const most = Math.max(...starts.map((from, i) => starts.slice(i).findIndex(at => at >= from + ms)))
    t.ok(most <= rate.max + (rate.burst ?? 1) - 1, `${most} of ${JSON.stringify(rate)}`)
  }
})

t.test('a rest gives back the burst, and no more', async t => {
  const pace = paceOf({ max: 10, per: '1s', burst: 4 })
  let until = 0
  for (let i = 0; i < 4; i++) until = afterStart(pace, until, NOW)
  t.equal(startsAt(pace, until, NOW), 0)
  t.equal(startsAt(pace, until, NOW + 250), 2)
  t.equal(restsAt(until), NOW + 400)
  for (const ms of [400, 4_000, 4_000_000]) t.equal(startsAt(pace, until, NOW + ms), 4)
})

t.test('the largest numbers stay exact', async t => {
  const pace = paceOf({ max: 1, per: '9999h' })
  const until = afterStart(pace, 0, NOW)
  t.equal(freeAt(pace, until), NOW + 9_999 * 3_600_000)
  t.equal(startsAt(pace, until, freeAt(pace, until) - 1), 0)
  t.equal(startsAt(pace, until, freeAt(pace, until)), 1)
})
