/** The questions that one graph host may ask resource workers. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { openAskGate } from '../../workers/graph/ask-gate.js'

const KB = 1024

/** A host whose pipe the test drains. */
function stage(limits: { reads_per_second?: number; bytes?: number } = {}) {
  const pauses = new Set<object>()
  let drain = () => {}
  const host = {
    pause: (reason: object) => void pauses.add(reason),
    resume: (reason: object) => void pauses.delete(reason),
    drained: () => new Promise<void>(resolve => (drain = resolve)),
  }
  const drains = { ...host, drained: async () => {} }
  const all = { reads_per_second: 1_000_000, bytes: 1024 * KB, ...limits }
  return {
    gate: openAskGate(drains, all),
    slow: openAskGate(host, all),
    isPaused: () => pauses.size > 0,
    drain: () => drain(),
  }
}

/** Work that ends when the test says so. */
function held() {
  const ends: (() => void)[] = []
  return { ask: () => new Promise<void>(resolve => ends.push(resolve)), ends }
}

t.test('a limited number of reads are under way; saves never wait', async t => {
  const { gate } = stage()
  const { ask, ends } = held()
  const reads = Array.from({ length: 100 }, () => gate.read(1, 0, ask))
  await turn()
  t.equal(ends.length, 32)
  let saved = false
  await gate.save(0, async () => void (saved = true))
  t.ok(saved)
  while (ends.length > 0) {
    for (const end of ends.splice(0)) end()
    await turn()
  }
  await Promise.all(reads)
})

t.test('a slot with one question is served before the hundredth of another', async t => {
  const { gate } = stage()
  const { ask, ends } = held()
  for (let n = 0; n < 100; n++) void gate.read(1, 0, ask)
  const order: string[] = []
  const polite = gate.read(2, 0, async () => void order.push('polite'))
  const flood = gate.read(1, 0, async () => void order.push('flood'))
  await turn()
  // One place goes to the first question that waits.
  for (const end of ends.splice(0, 2)) end()
  await polite
  t.same(order, ['polite'])
  while (order.length < 2) {
    for (const end of ends.splice(0)) end()
    await turn()
  }
  await flood
})

t.test('reads of one host have a rate', async t => {
  const { gate } = stage({ reads_per_second: 100 })
  const started = performance.now()
  await Promise.all(Array.from({ length: 35 }, () => gate.read(1, 0, async () => {})))
  // Ten in each tenth of a second: the last five begin after three of them.
  t.ok(performance.now() - started > 250, 'the promise is a rate')
})

t.test('no read begins while the host does not read its answers', async t => {
  const { slow, drain } = stage()
  let asked = 0
  const reads = Array.from({ length: 33 }, () => slow.read(1, 0, async () => void asked++))
  await turn()
  t.equal(asked, 32, 'their answers wait in the pipe')
  await sleep(300)
  t.equal(asked, 32)
  drain()
  await Promise.race(reads)
  await turn()
  t.equal(asked, 33)
})

t.test('the pipe of a host is not read while its questions take too many bytes', async t => {
  const { gate, isPaused } = stage({ bytes: 100 * KB })
  const { ask, ends } = held()
  const saves = [gate.save(80 * KB, ask)]
  t.notOk(isPaused())
  saves.push(gate.save(80 * KB, ask))
  t.ok(isPaused())
  ends[0]!()
  await saves[0]
  t.ok(isPaused(), 'until half is free')
  ends[1]!()
  await saves[1]
  t.notOk(isPaused())
  const reads = Array.from({ length: 40 }, () => gate.read(1, 0, ask))
  t.ok(isPaused(), 'questions without a body count, too')
  while (isPaused()) {
    for (const end of ends.splice(0)) end()
    await turn()
  }
  for (const end of ends.splice(0)) end()
  await Promise.all(reads)
})

t.test('a question that fails gives its place back', async t => {
  const { gate, isPaused } = stage({ bytes: 10 * KB })
  const failing = Array.from({ length: 40 }, () =>
    gate.read(1, 0, async () => {
      throw new Error('no answer')
    }),
  )
  t.ok(isPaused())
  for (const read of failing) await t.rejects(read, { message: 'no answer' })
  t.notOk(isPaused())
})
