/** The order of frames in the pipe of a host, with a reader that takes one write after the other. */
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { LARGE_FRAME, openFrameLanes } from '../../../workers/host/guards/frame-lanes.js'
import { FROM_HOST, type Frame, readFrames } from '../../../workers/pipe.js'

/** `read` takes what is being written; `order` lists the frames that have arrived, as slot and id. */
function stage() {
  const order: string[] = []
  const arrived = new Duplex({ read() {}, write() {} })
  readFrames(arrived, ({ slot, id }: Frame) => void order.push(`${slot}:${id}`))
  let taken: (() => void) | null = null
  const pipe = new Duplex({
    read() {},
    writev(chunks, done) {
      taken = () => {
        for (const { chunk } of chunks) arrived.push(chunk)
        done()
      }
    },
  })
  const lanes = openFrameLanes(pipe)
  let id = 0
  const send = (slot: number, size: number) =>
    lanes.send({ kind: FROM_HOST.chunk, slot, id: ++id, count: 1, body: Buffer.alloc(size) })
  const read = async () => {
    await turn()
    const take = taken
    taken = null
    take?.()
    await turn()
  }
  return { order, lanes, send, read }
}

t.test('a small frame waits for one large frame of other slots, not for all', async t => {
  const { order, lanes, send, read } = stage()
  for (const slot of [1, 2, 3]) send(slot, LARGE_FRAME)
  t.ok(lanes.waiting() >= 2 * LARGE_FRAME, 'what waits is counted')
  await turn()
  send(4, 10)
  for (let n = 0; n < 6; n++) await read()
  t.same(order, ['1:1', '4:4', '2:2', '3:3'])
  t.equal(lanes.waiting(), 0)
})

t.test('frames of a slot keep their order, and slots take turns', async t => {
  const { order, send, read } = stage()
  for (const size of [10, LARGE_FRAME, LARGE_FRAME, 20, LARGE_FRAME, 30]) send(1, size)
  for (const size of [LARGE_FRAME, 40]) send(2, size)
  for (let n = 0; n < 12; n++) await read()
  t.same(
    order.filter(one => one.startsWith('1:')),
    ['1:1', '1:2', '1:3', '1:4', '1:5', '1:6'],
  )
  t.same(
    order.filter(one => one.startsWith('2:')),
    ['2:7', '2:8'],
  )
  t.ok(order.indexOf('2:7') < order.indexOf('1:5'), 'between two large frames of a slot comes one of the other')
})

t.test('a small frame waits for about a megabyte of other slots', async t => {
  const { order, lanes, send, read } = stage()
  for (let n = 0; n < 40; n++) for (const slot of [1, 2, 3]) send(slot, LARGE_FRAME / 4)
  await turn()
  send(4, 10)
  send(4, 10)
  await read()
  await read()
  const before = order.indexOf('4:121')
  t.ok(before > 0 && before <= 8, `${before} frames of 256 KB come first`)
  t.equal(order[before + 1], '4:122')
  while (lanes.waiting() > 0) await read()
  t.equal(order.length, 122)
  for (const slot of [1, 2, 3]) {
    const own = order.filter(one => one.startsWith(`${slot}:`)).map(one => Number(one.slice(2)))
    t.same(
      own,
      own.toSorted((a, b) => a - b),
      'in their order',
    )
    t.ok(
      order.slice(-20).some(one => one.startsWith(`${slot}:`)),
      'the pipe is shared to the end',
    )
  }
})

t.test('only slots that have much in a full pipe are to pause', async t => {
  const { lanes, send, read } = stage()
  for (let n = 0; n < 24; n++) send(1, LARGE_FRAME)
  send(2, 10)
  t.equal(lanes.drained(2), null, 'a slot that sends little goes on')
  const drained = lanes.drained(1)
  t.not(drained, null)
  let resumed = false
  void drained!.then(() => {
    resumed = true
  })
  for (let n = 0; n < 3; n++) await read()
  t.notOk(resumed)
  for (let n = 0; n < 9; n++) await read()
  t.ok(resumed, 'until less than 16 MB wait')
  t.equal(lanes.drained(1), null)
  while (lanes.waiting() > 0) await read()
})

t.test('a paused slot sends nothing and is to pause, others go on', async t => {
  const { order, lanes, send, read } = stage()
  lanes.pause(1)
  send(1, 10)
  send(1, LARGE_FRAME)
  send(2, 10)
  await read()
  t.same(order, ['2:3'])
  const drained = lanes.drained(1)
  t.not(drained, null)
  t.equal(lanes.drained(2), null)
  lanes.resume(1)
  await drained
  t.equal(lanes.drained(1), null)
  for (let n = 0; n < 2; n++) await read()
  t.same(order, ['2:3', '1:1', '1:2'])
  lanes.resume(1)
  send(1, 10)
  await read()
  t.same(order.at(-1), '1:4', 'to resume twice changes nothing')
})

t.test('a slot that is resumed has not saved up its time', async t => {
  const { order, lanes, send, read } = stage()
  for (let n = 0; n < 8; n++) send(1, LARGE_FRAME)
  lanes.pause(1)
  for (let n = 0; n < 8; n++) send(2, LARGE_FRAME)
  for (let n = 0; n < 5; n++) await read()
  const before = order.length
  t.ok(before >= 4)
  lanes.resume(1)
  while (lanes.waiting() > 0) await read()
  const after = order.slice(before + 1, before + 7)
  t.equal(after.filter(one => one.startsWith('1:')).length, 3, `${after} take turns`)
  t.equal(order.length, 16)
})
