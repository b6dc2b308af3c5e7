/** Code that takes long to load is waited for, and the log says so. */
import { spawn } from 'node:child_process'
import { performance } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Log } from '../../bus/log.js'
import { sayWhileLoading } from '../../workers/child/loading.js'
import { idleFor } from '../../workers/host/idle.js'
import { until } from '../helpers/until.js'

t.test('the log names a child that loads, with its CPU time, until it is loaded', async t => {
  const lines: [object, string][] = []
  const log = { warn: (data: object, text: string) => lines.push([data, text]) } as unknown as Log
  const loaded = sayWhileLoading(log, 'app host', process.pid, 5)
  await until(() => lines.length >= 2)
  loaded()
  const { length } = lines
  t.match(lines[0], [{ pid: process.pid, seconds: 0 }, 'the app host still loads the application'])
  if (process.platform === 'linux') t.match(lines[0], [{ cpu_seconds: Number }])
  const later = new Promise(resolve => setTimeout(resolve, 20))
  await later
  t.equal(lines.length, length)
})

t.test('the CPU time is also that of children', { skip: process.platform !== 'linux' }, async t => {
  const busy = "require('node:child_process').spawn(process.execPath, ['-e', 'for (;;);'])"
  const child = spawn(process.execPath, ['-e', busy], { detached: true, stdio: 'ignore' })
  t.teardown(() => process.kill(-child.pid!, 'SIGKILL'))
  let seen = 0
  const log = { warn: ({ cpu_seconds }: { cpu_seconds: number }) => (seen = cpu_seconds) } as unknown as Log
  const loaded = sayWhileLoading(log, 'app host', child.pid!, 5)
  // The child itself only waits.
  t.ok(await until(() => seen >= 2))
  loaded()
})

t.test('the time in which code computes is no waiting', async t => {
  // The timers of `idleFor` keep no process alive.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => clearInterval(alive))
  const before = performance.eventLoopUtilization().idle
  let waited = false
  const waiting = idleFor(50).then(() => (waited = true))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  await turn()
  await turn()
  t.equal(waited, false)
  await waiting
  t.ok(performance.eventLoopUtilization().idle - before >= 50)
})
