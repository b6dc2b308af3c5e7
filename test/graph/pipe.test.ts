import { PassThrough } from 'node:stream'
import t from 'tap'
import { validateLastWords } from '../../schemas/host.js'
import { FROM_HOST, type Frame, frameBytes, MalformedFrame, readFrames, readJson } from '../../workers/pipe.js'

const read = (bytes: Uint8Array, step = bytes.length, onFrame: (frame: Frame) => void = () => {}) => {
  const stream = new PassThrough()
  const frames: Frame[] = []
  const failures: [string, number][] = []
  readFrames(
    stream,
    frame => {
      onFrame(frame)
      frames.push({ ...frame, body: Uint8Array.from(frame.body) })
    },
    (error, slot) => failures.push([error.message, slot]),
  )
  for (let at = 0; at < bytes.length; at += step) stream.emit('data', Buffer.from(bytes.subarray(at, at + step)))
  return { frames, failures }
}
const good = { kind: FROM_HOST.chunk, flags: 1, slot: 5, id: 2 ** 40, count: 3, body: Buffer.from('body') }

t.test('frames are complete however the bytes arrive', async t => {
  const bytes = Buffer.concat([frameBytes(good), frameBytes({ kind: FROM_HOST.free }), frameBytes(good)])
  for (const step of [1, 7, 24, 25, bytes.length]) {
    const { frames, failures } = read(bytes, step)
    t.same(failures, [])
    t.match(frames, [good, { kind: FROM_HOST.free }, good])
  }
})

t.test('an impossible head is reported once, and nothing is read after it', async t => {
  const head = (change: (head: Buffer) => void) => {
    const bytes = Buffer.from(frameBytes({ ...good, body: Buffer.alloc(0) }))
    change(bytes)
    return bytes
  }
  for (const bad of [
    Buffer.from('a log line that was written to the wrong descriptor\n'),
    head(bytes => bytes.writeUInt8(99, 0)),
    head(bytes => bytes.writeUInt8(1, 2)),
    head(bytes => bytes.writeUInt32LE(256 * 1024 * 1024 + 1, 20)),
    // The number nearest to it cannot be written in an answer.
    head(bytes => bytes.writeBigUInt64LE(2n ** 64n - 1n, 8)),
  ])
    for (const step of [3, 10_000]) {
      const { frames, failures } = read(Buffer.concat([frameBytes(good), bad, frameBytes(good), bad]), step)
      t.equal(frames.length, 1)
      t.equal(failures.length, 1)
    }
})

t.test('an error of the handler is reported with the slot of its frame', async t => {
  const { failures } = read(Buffer.concat([frameBytes(good), frameBytes(good)]), 1_000, () => {
    throw new MalformedFrame('bad')
  })
  t.same(failures, [['bad', 5]])
})

t.test('a JSON body that would take much memory is malformed', async t => {
  const values = (count: number) => Buffer.from(`[${'{},'.repeat(count)}{}]`)
  for (const body of [Buffer.alloc(5_000_000, ' '), values(1_100_000), Buffer.from('['.repeat(10_000))])
    t.throws(() => readJson(body, validateLastWords), { name: 'MalformedFrame', message: /larger|values|deeper/ })
})
