import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FileReport, fileJobs, openFreeCores, runTogether } from '../../scripts/checks/run-files.js'
import { tapReader } from '../../scripts/checks/tap-report.js'
import { testFiles } from '../../scripts/checks/test-files.js'
import { until } from '../helpers/until.js'

function read(text: string) {
  const reader = tapReader('a')
  // In parts that end in the middle of a line.
  for (let at = 0; at < text.length; at += 7) reader.write(Buffer.from(text.slice(at, at + 7)))
  return reader.end()
}

t.test('tests are counted, not assertions; a failure comes with its diagnosis', async t => {
  const report = read(`TAP version 14
# Subtest: one
    ok 1 - should be equal
    ok 2 - should be equal
    # Subtest: inner
        not ok 1 - numbers
          ---
          at:
            fileName: test/a.test.ts
            lineNumber: 2
            columnNumber: 7
          source: |
            t.equal(1, 2)
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
# Subtest: group
    # Subtest: two
        ok 1 - fine
        1..1
    ok 1 - two # time=1ms
    1..1
ok 2 - group # time=2ms
ok 3 - at the top
1..3
`)
  t.match(report, { passed: 1, failed: 3, skipped: 1 }, 'the file itself counts for its own assertions')
  t.equal(report.failures.length, 1)
  t.equal(report.failures[0], 'a > one > inner > numbers\ntest/a.test.ts:2:7\n-2\n+1')
})

t.test('a plan that is not met and a test without an end are failures', async t => {
  const plan = read(`TAP version 14
# Subtest: plan
    1..2
    ok 1 - a
    not ok 2 - test count(1) != plan(2)
not ok 1 - plan # time=2ms
1..1
`)
  t.match(plan, { passed: 0, failed: 1 })
  const unended = read('TAP version 14\n# Subtest: dies\n    ok 1 - a\n')
  t.match(unended, { passed: 0, failed: 1, failures: ['a > dies > did not end'] })
})

t.test('files run with their own limits, and each way to fail is reported', async t => {
  const tap = (name: string) => `import t from ${JSON.stringify(import.meta.resolve('tap'))}\n${name}`
  const sources: { [name: string]: string } = {
    good: tap("t.test('works', async t => t.ok(1)); console.error('noise')"),
    bad: tap("console.error('the reason: ' + 'x'.repeat(1000)); t.test('fails', async t => t.equal(1, 2))"),
    crash: tap("t.test('works', async t => t.ok(1)); t.teardown(() => process.exit(3))"),
    kill: tap("t.test('hangs', async t => { t.ok(1); process.kill(process.pid, 'SIGKILL') })"),
    slow: tap("t.setTimeout(300); t.test('hangs', () => new Promise(() => setTimeout(() => {}, 2_000)))"),
    empty: tap(''),
  }
  const folder = t.testdir()
  const reports = new Map<string, FileReport>()
  const files = Object.entries(sources).map(([name, source]) => {
    const path = join(folder, `${name}.mjs`)
    writeFileSync(path, source)
    return { path, name, store: 'sqlite' as const, needs: [], shared: false, cores: 1 }
  })
  const jobs = fileJobs(files, {
    out: join(folder, 'out'),
    nodeOf: () => process.execPath,
    envOf: () => process.env,
    onReport: report => void reports.set(report.name, report),
  })
  await runTogether(jobs, { jobs: 10 })
  const found = (name: string) => {
    const { passed, failed, failures } = reports.get(name)!
    return { passed, failed, first: failures[0]?.split('\n')[0] }
  }
  t.match(reports.get('good'), { passed: 1, failed: 0, tail: [] }, 'what a file prints is shown only when it fails')
  t.same(found('bad'), { passed: 0, failed: 1, first: 'bad > fails > should be equal' })
  t.match(reports.get('bad')!.tail, [/^the reason: x+…$/])
  t.same(found('crash'), { passed: 1, failed: 1, first: 'crash ended with exit code 3' })
  t.same(found('kill'), { passed: 0, failed: 1, first: 'kill > hangs > did not end' })
  t.match(found('slow'), { passed: 0, failed: 1, first: /slow > .*(timeout|hangs)/ })
  t.match(found('empty'), { passed: 0, failed: 1, first: 'empty contains no tests' })
})

t.test('a file that runs on both stores at the same time has a folder of its own on each', async t => {
  const folder = t.testdir()
  const path = join(folder, 'both.mjs')
  // Each makes its folder, waits for the other one's, and then looks for its own file.
  writeFileSync(
    path,
    `import t from ${JSON.stringify(import.meta.resolve('tap'))}
import { existsSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
t.test('keeps its file', async t => {
  const { OWN, OTHER } = process.env
  const own = t.testdir({ [basename(OWN)]: '' })
  writeFileSync(OWN, '')
  while (!existsSync(OTHER)) await new Promise(done => setTimeout(done, 20))
  t.ok(existsSync(join(own, basename(OWN))))
})`,
  )
  const reports: FileReport[] = []
  const file = { path, store: 'sqlite' as const, needs: [], shared: false, cores: 1 }
  const files = [
    { ...file, name: 'both' },
    { ...file, name: 'both on MongoDB', store: 'mongo' as const },
  ]
  const jobs = fileJobs(files, {
    out: join(folder, 'out'),
    nodeOf: () => process.execPath,
    envOf: ({ store }) => ({
      ...process.env,
      OWN: join(folder, store === 'mongo' ? 'b' : 'a'),
      OTHER: join(folder, store === 'mongo' ? 'a' : 'b'),
    }),
    onReport: report => void reports.push(report),
  })
  await runTogether(jobs, { jobs: 2 })
  t.same(
    reports.map(({ passed, failed }) => ({ passed, failed })),
    [
      { passed: 1, failed: 0 },
      { passed: 1, failed: 0 },
    ],
  )
})

t.test('a job begins when enough cores are free, and when fewer than the given number run', async t => {
  const order = async (jobs: number, least?: number) => {
    let log = ''
    let settle: (() => void)[] = []
    let free = 0.75
    const job = (name: string, cores: number) => ({
      cores,
      async run() {
        log += `+${name}`
        await new Promise<void>(done => settle.push(done))
        log += `-${name}`
      },
    })
    const cores = {
      now: () => free,
      expect(taken: number) {
        free -= taken
        return () => {
          free += taken
        }
      },
    }
    const all = runTogether([job('a', 0.1), job('B', 0.7), job('c', 0.1), job('d', 0.1)], {
      jobs,
      cores,
      ...(least === undefined ? {} : { least }),
    })
    let ended = false
    void all.then(() => (ended = true))
    while (!ended) {
      const [first, ...rest] = settle
      settle = rest
      first?.()
      await new Promise(setImmediate)
    }
    return log
  }
  t.equal(await order(10), '+a+B-a-B+c+d-c-d', 'no job takes the place of one before it')
  t.equal(await order(1), '+a-a+B-B+c-c+d-d')
  t.equal(await order(10, 3), '+a+B+c-a+d-B-c-d', 'three run whatever is free')
  t.equal(await order(1, 3), '+a-a+B-B+c-c+d-d')
})

t.test('cores are looked for again while a job runs', async t => {
  let looks = 0
  let begun = ''
  const first = { cores: 1, run: () => until(() => begun !== '').then(() => {}) }
  const second = {
    cores: 1,
    async run() {
      begun = `${looks}`
    },
  }
  await runTogether([first, second], { jobs: 2, cores: { now: () => (++looks < 4 ? 0 : 1), expect: () => () => {} } })
  t.equal(begun, '4', 'the first one had not ended')
})

t.test('a job that has begun takes its cores before they are busy', t => {
  const cores = openFreeCores(0.05)
  const before = cores.now()
  cores.expect(1_000)
  t.ok(cores.now() < before - 900)
  t.end()
})

t.test('cores of a job that has ended are free at once, although the time before shows them busy', t => {
  const machine = { at: 0, idle: 0, all: 2 }
  const cores = openFreeCores(0, () => machine)
  const pass = (ms: number, busy: number) => {
    machine.at += ms
    machine.idle += ms * (machine.all - busy)
    return cores.now()
  }
  t.equal(pass(0, 0), 2)
  t.equal(pass(1_000, 0), 2)
  const end = cores.expect(1)
  t.equal(cores.now(), 1, 'begun')
  t.equal(pass(500, 1), 1, 'seen for a part of the time')
  end()
  t.equal(cores.now(), 2)
  t.equal(pass(500, 0), 2, 'ended within the time')
  t.equal(pass(4_000, 0), 2, 'ended before it')
  const endLong = cores.expect(0.5)
  t.equal(pass(10_000, 1.5), 0.5, 'what a job that was seen all the time uses is measured')
  endLong()
  t.end()
})

t.test('a job that ends frees no core while the others need more than there are', t => {
  const machine = { at: 0, idle: 0, all: 2 }
  const cores = openFreeCores(0, () => machine)
  const ends = [0.8, 0.8, 0.8, 0.8].map(cores.expect)
  cores.now()
  machine.at += 3_000
  t.equal(cores.now(), 0, 'busy')
  ends[0]!()
  t.equal(cores.now(), 0, '2.4 are needed')
  ends[1]!()
  t.equal(Math.round(cores.now() * 10), 4)
  t.end()
})

t.test('test files: some run on each store; flags leave some out', t => {
  const all = testFiles({ withoutBrowser: false, embeddedOnly: false })
  const names = all.map(({ name }) => name)
  t.ok(['api/runs', 'api/runs on MongoDB', 'api/runs on PostgreSQL'].every(name => names.includes(name)))
  t.ok(names.includes('scripts/test-runner') && !names.includes('scripts/test-runner on MongoDB'))
  t.equal(names.filter(name => name.startsWith('faults/store-locked')).length, 1)
  const embedded = testFiles({ withoutBrowser: true, embeddedOnly: true })
  t.notOk(embedded.some(({ name, store }) => store !== 'sqlite' || /^browser|mongo|postgres/.test(name)))
  t.same(
    testFiles({ only: 'scripts/test-runner', withoutBrowser: false, embeddedOnly: false }).map(({ name }) => name),
    ['scripts/test-runner'],
  )
  const several = testFiles({ only: 'scripts/test-runner,edge/router', withoutBrowser: false, embeddedOnly: false })
  t.same(several.map(({ name }) => name).sort(), ['edge/router', 'scripts/test-runner'])
  t.end()
})
