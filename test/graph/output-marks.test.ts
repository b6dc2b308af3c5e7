import { PassThrough } from 'node:stream'
import t from 'tap'
import { forwardOutput, type OutputLine } from '../../workers/child/output.js'
import { openLineMaker } from '../../workers/child/output-lines.js'
import { openMarkReader } from '../../workers/child/output-marks.js'
import { markOutput } from '../../workers/host/output-marks.js'
import { markOf } from '../../workers/pipe.js'

/** Output in pieces of `size` bytes: what is left of it, and the text of each slot. */
function readIn(text: string, size: number) {
  const texts: [slot: number, text: string][] = []
  const reader = openMarkReader((slot, part) => {
    const last = texts.at(-1)
    if (last?.[0] === slot) last[1] += part.toString('latin1')
    else texts.push([slot, part.toString('latin1')])
  })
  const data = Buffer.from(text)
  const plain: Buffer[] = []
  for (let at = 0; at < data.length; at += size) plain.push(Buffer.from(reader.read(data.subarray(at, at + size))))
  plain.push(reader.end())
  return { plain: Buffer.concat(plain).toString(), texts }
}

t.test('marks are taken out, wherever the data are cut', async t => {
  const text = `raw\n${markOf(7)}one\n${markOf(0)}${markOf(4294967294)}two${markOf(0)} raw\n`
  for (let size = 1; size <= text.length; size++)
    t.same(readIn(text, size), {
      plain: 'raw\none\ntwo raw\n',
      texts: [
        [0, 'raw\n'],
        [7, 'one\n'],
        [4294967294, 'two'],
        [0, ' raw\n'],
      ],
    })
})

t.test('what only looks like a mark is output', async t => {
  for (const text of [
    '\u001b[31mred\u001b[0m\n',
    '\u001b_wx\u001b\\',
    '\u001b_w12',
    '\u001b',
    '\u001b_w12345678901\u001b\\',
    '\u001b\\',
  ])
    for (let size = 1; size <= text.length; size++)
      t.same(readIn(text, size), { plain: text, texts: [[0, text]] }, JSON.stringify(text))
})

t.test('lines are of one slot, and long ones are cut', async t => {
  const found: [number, string][] = []
  const lines = openLineMaker((slot, text) => found.push([slot, text]))
  const euro = Buffer.from('€')
  lines.add(1, Buffer.from('a\r\n\nb'))
  lines.add(1, Buffer.from('c\nhalf'))
  lines.add(2, euro.subarray(0, 1))
  lines.add(2, euro.subarray(1))
  lines.add(2, Buffer.from(`\n${'x'.repeat(5_000)}\nrest`))
  lines.end()
  t.same(found, [
    [1, 'a'],
    [1, ''],
    [1, 'bc'],
    [1, 'half'],
    [2, '€'],
    [2, 'x'.repeat(4_096)],
    [2, 'x'.repeat(904)],
    [2, 'rest'],
  ])
})

t.test('a host marks what a run writes, and its supervisor passes it on as it was', async t => {
  let slot = 0
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  markOutput(() => slot, [stdout, stderr] as unknown as NodeJS.WriteStream[])
  const [out, err] = [new PassThrough(), new PassThrough()]
  const lines: OutputLine[] = []
  const child = { pid: 1, stdout, stderr } as unknown as Parameters<typeof forwardOutput>[0]
  const { tail } = forwardOutput(child, 'host', { out, err, onLine: line => void lines.push(line) })
  stdout.write('begin\n')
  slot = 5
  stdout.write('text\n')
  stdout.write(Buffer.from('bytes\n'))
  stdout.write('aGV4Cg==', 'base64')
  stderr.write('bad\n')
  slot = 0
  stdout.end('end')
  stderr.end()
  await Promise.all([stdout, stderr].map(stream => new Promise(resolve => stream.once('end', resolve))))
  t.equal(out.read()?.toString(), 'begin\ntext\nbytes\nhex\nend')
  t.equal(err.read()?.toString(), 'bad\n')
  t.equal(tail(), 'bad\n')
  const of = (stream: string) => lines.filter(line => line.stream === stream).map(({ slot, text }) => [slot, text])
  t.same(of('stdout'), [
    [0, 'begin'],
    [5, 'text'],
    [5, 'bytes'],
    [0, 'hex'],
    [0, 'end'],
  ])
  t.same(of('stderr'), [[5, 'bad']])
})

t.test('lines that are dropped are in no log', async t => {
  const stdout = new PassThrough()
  const out = new PassThrough()
  let chars = 0
  const child = { pid: 1, stdout, stderr: null } as unknown as Parameters<typeof forwardOutput>[0]
  forwardOutput(child, 'host', { out, err: new PassThrough(), onLine: ({ text }) => void (chars += text.length + 1) })
  out.resume()
  const part = Buffer.alloc(256 * 1024, `${'x'.repeat(1_023)}\n`)
  for (let n = 0; n < 40; n++) stdout.write(part)
  stdout.end()
  await new Promise(resolve => stdout.once('end', resolve))
  t.ok(chars > 0 && chars <= 2 * 1024 * 1024, `${chars} characters`)
})
