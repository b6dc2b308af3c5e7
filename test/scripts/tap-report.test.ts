import t from 'tap'
import { type FileReport, tapReader } from '../../scripts/checks/tap-report.js'

function read(text: string): FileReport[] {
  const reports: FileReport[] = []
  const line = tapReader(report => reports.push(report))
  for (const one of text.split('\n')) line(one)
  return reports
}

t.test('tests are counted, not assertions; a failure comes with its diagnosis', async t => {
  const [a, b] = read(`TAP version 14
1..2
# Subtest: a.test.js
    # Subtest: one
        ok 1 - should be equal
        ok 2 - should be equal
        # Subtest: inner
            not ok 1 - numbers
              ---
              diff: |
                -2
                +1
              ...
            1..1
        not ok 3 - inner # time=39.446ms
          ---
          at:
            lineNumber: 2
          ...
        ok 4 - later # SKIP
        1..4
    not ok 1 - one # time=44.721ms
      ---
      at:
        lineNumber: 2
      ...
    # Subtest: group
        # Subtest: two
            ok 1 - fine
            1..1
        ok 1 - two # time=1ms
        1..1
    ok 2 - group # time=2ms
    1..2
not ok 1 - a.test.js # time=1065.291ms
  ---
  exitCode: 1
  ...
# Subtest: b.test.js
    ok 1 - at the top
    1..1
ok 2 - b.test.js # time=1.5s
# { total: 5, pass: 4, fail: 1, skip: 1 }`)
  t.match(a, { file: 'a.test.js', passed: 1, failed: 2, skipped: 1, seconds: 1.065291 })
  t.equal(a!.failures.length, 1)
  t.match(a!.failures[0], /a\.test\.js > one > inner > numbers\ndiff: \|\n {2}-2/)
  t.match(b, { file: 'b.test.js', passed: 1, failed: 0, seconds: 1.5 })
})

t.test('a crash, a timeout and a file without tests are failures', async t => {
  const reports = read(`# Subtest: crash.test.js
    1..0 # no tests found
not ok 1 - crash.test.js # time=670.9ms
  ---
  exitCode: 3
  ...
# Subtest: late.test.js
    # Subtest: waits
        ok 1 - a
    not ok 1 - timeout!
      ---
      expired: t
      ...
    1..1
not ok 2 - late.test.js # time=5ms
  ---
  signal: SIGTERM
  ...
# Subtest: killed.test.js
    # Subtest: dies
        ok 1 - a
    1..0 # no tests found
        # test count(1) != plan(null)
not ok 3 - killed.test.js # time=487.065ms
  ---
  signal: SIGKILL
  ...
# Subtest: empty.test.js
    1..0 # no tests found
ok 3 - empty.test.js # SKIP no tests found`)
  t.same(
    reports.map(({ file, passed, failed }) => [file, passed, failed > 0]),
    [
      ['crash.test.js', 0, true],
      ['late.test.js', 0, true],
      ['killed.test.js', 0, true],
      ['empty.test.js', 0, true],
    ],
  )
  t.match(reports[0]!.failures[0], /exitCode: 3/)
})
