import t from 'tap'
import { checkTimetable, latestSlot, nextSlot, nextSlots, parseTime } from '../../../workers/resources/crons/slots.js'

const at = (text: string) => Date.parse(text)
const slots = (schedule: string, timezone: string | null, from: string, n: number, end: number | null = null) => {
  const found: (string | null)[] = []
  for (let after: number | null = at(from); found.length < n && after !== null; ) {
    after = nextSlot({ schedule, timezone, end }, after)
    found.push(after === null ? null : new Date(after).toISOString().replace(':00.000Z', 'Z'))
  }
  return found
}

t.test('slots where the clocks change, in eight zones', async t => {
  // biome-ignore format: a table
  const ROWS: [why: string, schedule: string, timezone: string | null, from: string, expected: string[]][] = [
    ['Berlin, spring: 02:30 does not exist', '30 2 * * *', 'Europe/Berlin', '2026-03-28T00:00Z',
      ['2026-03-28T01:30Z', '2026-03-29T01:00Z', '2026-03-30T00:30Z']],
    ['Berlin, autumn: 02:30 comes twice', '30 2 * * *', 'Europe/Berlin', '2026-10-24T00:00Z',
      ['2026-10-24T00:30Z', '2026-10-25T00:30Z', '2026-10-26T01:30Z']],
    ['Berlin, autumn: a list of times, too', '0,30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z',
      ['2026-10-25T00:00Z', '2026-10-25T00:30Z', '2026-10-26T01:00Z']],
    ['Berlin, autumn: every hour continues', '0 * * * *', 'Europe/Berlin', '2026-10-24T23:30Z',
      ['2026-10-25T00:00Z', '2026-10-25T01:00Z', '2026-10-25T02:00Z']],
    ['New York, spring', '30 2 * * *', 'America/New_York', '2026-03-07T12:00Z',
      ['2026-03-08T07:00Z', '2026-03-09T06:30Z']],
    ['New York, autumn', '30 1 * * *', 'America/New_York', '2026-10-31T12:00Z',
      ['2026-11-01T05:30Z', '2026-11-02T06:30Z']],
    ['London, spring', '15 1 * * *', 'Europe/London', '2026-03-28T12:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:15Z']],
    ['London, autumn', '15 1 * * *', 'Europe/London', '2026-10-24T12:00Z', ['2026-10-25T00:15Z', '2026-10-26T01:15Z']],
    ['Sydney, spring (October)', '30 2 * * *', 'Australia/Sydney', '2026-10-03T00:00Z',
      ['2026-10-03T16:00Z', '2026-10-04T15:30Z']],
    ['Sydney, autumn (April)', '30 2 * * *', 'Australia/Sydney', '2026-04-04T00:00Z',
      ['2026-04-04T15:30Z', '2026-04-05T16:30Z']],
    ['Lord Howe, spring: half an hour', '15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00Z',
      ['2026-10-03T15:30Z', '2026-10-04T15:15Z']],
    ['Lord Howe, autumn: half an hour', '45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T00:00Z',
      ['2026-04-04T14:45Z', '2026-04-05T15:15Z']],
    ['Santiago, spring: midnight does not exist', '0 0 * * *', 'America/Santiago', '2026-09-05T12:00Z',
      ['2026-09-06T04:00Z', '2026-09-07T03:00Z']],
    ['Tokyo: clocks that never change', '30 2 * * *', 'Asia/Tokyo', '2026-03-28T00:00Z',
      ['2026-03-28T17:30Z', '2026-03-29T17:30Z']],
    ['UTC without a zone', '30 2 * * *', null, '2026-03-28T00:00Z', ['2026-03-28T02:30Z', '2026-03-29T02:30Z']],
    ['both day fields: either', '0 0 13 * 5', 'UTC', '2026-11-10T00:00Z',
      ['2026-11-13T00:00Z', '2026-11-20T00:00Z']],
    ['0 and 7 are Sunday', '0 0 * * 0,7', 'UTC', '2026-11-16T00:00Z', ['2026-11-22T00:00Z', '2026-11-29T00:00Z']],
    ['names, ranges and steps', '*/30 9-10 * jan MON-TUE', 'UTC', '2026-12-31T00:00Z',
      ['2027-01-04T09:00Z', '2027-01-04T09:30Z', '2027-01-04T10:00Z']],
    ['a nickname', '@daily', 'UTC', '2026-11-21T00:00Z', ['2026-11-22T00:00Z']],
  ]
  for (const [why, schedule, timezone, from, expected] of ROWS) {
    t.same(slots(schedule, timezone, from, expected.length), expected, why)
    const together = nextSlots({ schedule, timezone, end: null }, at(from), expected.length)
    t.same(together, expected.map(at), `${why}: all at once`)
  }
})

t.test('a slot is strictly after, and before the end', async t => {
  t.same(slots('* * * * *', null, '2026-01-01T00:00Z', 1), ['2026-01-01T00:01Z'])
  t.same(slots('* * * * *', null, '2025-12-31T23:59:59.999Z', 1), ['2026-01-01T00:00Z'])
  const end = at('2026-01-01T00:02Z')
  const ending = { schedule: '* * * * *', timezone: null, end }
  t.same(nextSlots(ending, at('2026-01-01T00:00Z'), 5), [at('2026-01-01T00:01Z')])
  t.same(
    slots('* * * * *', null, '2026-01-01T00:00Z', 3, end),
    ['2026-01-01T00:01Z', null],
    'the end itself is excluded',
  )
})

t.test('the latest of the missed slots', async t => {
  const table = { schedule: '*/5 * * * *', timezone: null, end: null }
  const due = at('2026-01-01T00:05Z')
  const latest = (now: string) => new Date(latestSlot(table, due, at(now))).toISOString().slice(11, 16)
  t.equal(latest('2026-01-01T00:05Z'), '00:05')
  t.equal(latest('2026-01-01T00:09:59.999Z'), '00:05')
  t.equal(latest('2026-01-01T00:10Z'), '00:10')
  t.equal(latest('2026-01-01T03:33Z'), '03:30')
  t.equal(latestSlot(table, due, due - 1), due, 'never before the slot that is due')
})

t.test('schedules that are refused', async t => {
  const check = (schedule: string, timezone: string | null = null, seconds = false) =>
    checkTimetable({ schedule, timezone }, seconds)
  t.doesNotThrow(() => check(' 0 9 * * 1-5 ', 'Europe/Berlin'))
  t.doesNotThrow(() => check('0 0 29 2 *'), 'a rare date that exists')
  t.throws(() => check('0 0 30 2 *'), { code: 'invalid', message: /ever occurs/ })
  t.throws(() => check('* * * * * *'), {
    code: 'invalid',
    message: /five fields.*; WEFT_CRON_SECONDS=1 allows a sixth field, the seconds, in front/,
  })
  t.throws(() => check('* * * *'), { code: 'invalid', message: /^(?!.*WEFT_CRON_SECONDS).*five fields/ })
  t.doesNotThrow(() => check('* * * * * *', null, true), 'six fields where they are allowed')
  t.throws(() => check('* * * * * * *', null, true), { code: 'invalid' })
  t.throws(() => check('* * * * *', 'Mars/Olympus'), { code: 'invalid', message: /^timezone: .*Mars/ })
})

t.test('times as clients write them', async t => {
  // biome-ignore format: a table
  const ROWS: [text: string, expected: string | null][] = [
    ['2026-12-01T10:00:00Z', '2026-12-01T10:00:00.000Z'],
    ['2026-12-01T10:00:00+02:00', '2026-12-01T08:00:00.000Z'],
    ['2026-12-01T10:00:00-0530', '2026-12-01T15:30:00.000Z'],
    ['2026-12-01T10:00:00.123456', '2026-12-01T10:00:00.123Z'],
    ['2026-12-01 10:00', '2026-12-01T10:00:00.000Z'],
    ['2026-12-01', '2026-12-01T00:00:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['2026-02-29T00:00:00Z', null],
    ['2026-04-31', null],
    ['2026-12-01T24:01:00Z', null],
    ['2026-12-01T10:00:00 CET', null],
    ['1764547200', null],
    ['tomorrow', null],
    ['', null],
  ]
  for (const [text, expected] of ROWS)
    if (expected === null)
      t.throws(() => parseTime('end_time', text), { code: 'invalid', message: /^end_time: / }, text)
    else t.equal(new Date(parseTime('end_time', text)).toISOString(), expected, text)
})
