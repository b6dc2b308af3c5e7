/** Waits of the deploy worker end by time, also when garbage is collected meanwhile. */
import { EventEmitter } from 'node:events'
import t from 'tap'
import { abortedWithin, nextChange } from '../../workers/deploy/wait.js'
import { collectGarbage } from '../helpers/garbage.js'

t.test('a wait ends by time, by a change, and by its signal', async t => {
  const changes = new EventEmitter()
  const { signal } = new AbortController()
  const waits = Array.from({ length: 100 }, () => nextChange(changes, 50, signal))
  collectGarbage()
  await Promise.all(waits)
  t.equal(changes.listenerCount('change'), 0)
  const changed = nextChange(changes, 60_000, signal)
  changes.emit('change')
  await changed
  const stop = new AbortController()
  const stopped = nextChange(changes, 60_000, stop.signal)
  stop.abort()
  await stopped
  await nextChange(changes, 60_000, stop.signal)
  t.equal(changes.listenerCount('change'), 0)
})

t.test('a signal with a limit', async t => {
  const { signal } = new AbortController()
  const limited = abortedWithin(20, signal)
  collectGarbage()
  await new Promise(done => limited.signal.addEventListener('abort', done))
  t.notOk(signal.aborted)
  const stop = new AbortController()
  const other = abortedWithin(60_000, stop.signal)
  stop.abort('why')
  t.equal(other.signal.reason, 'why')
  other.clear()
})
