/** Archives that clients upload: what is taken, and what is refused before it reaches the disk. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { unpack } from '../../workers/deploy/process/unpack.js'
import { type Entry, tarOf } from './archive.js'

const LIMITS = { bytes: 1024 ** 2, entries: 100 }
const open = new AbortController().signal

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'weft-unpack-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** In pieces of 100 bytes. */
async function* pieces(bytes: Uint8Array) {
  for (let at = 0; at < bytes.length; at += 100) yield bytes.subarray(at, at + 100)
}

const unpackBytes = (bytes: Uint8Array, folder: string, limits = LIMITS) => unpack(pieces(bytes), folder, limits, open)
const unpackAll = (entries: Entry[], folder: string, limits = LIMITS) =>
  unpackBytes(gzipSync(tarOf(entries)), folder, limits)

t.test('files and folders', async t => {
  const folder = folderOf(t)
  const long = `${'long-folder/'.repeat(12)}file.txt`
  const unpacked = await unpackAll(
    [
      { path: './langgraph.json', text: '{}' },
      { path: 'src/', type: '5' },
      { path: 'src/empty.ts', text: '' },
      { path: 'run.sh', text: 'true', mode: 0o755 },
      { path: 'deep/er/file.bin', text: 'x'.repeat(100_000) },
      { path: 'pax', name: long, text: 'long' },
      { path: '.git/config', text: 'not taken' },
      { path: 'langgraph.json', text: '{"twice":1}' },
    ],
    folder,
  )
  t.equal(unpacked.files, 6)
  t.equal(readFileSync(join(folder, 'langgraph.json'), 'utf8'), '{"twice":1}', 'the last one counts')
  t.equal(statSync(join(folder, 'run.sh')).mode & 0o777, 0o755)
  t.equal(statSync(join(folder, 'src/empty.ts')).mode & 0o777, 0o644)
  t.equal(statSync(join(folder, 'deep/er/file.bin')).size, 100_000)
  t.equal(readFileSync(join(folder, long), 'utf8'), 'long')
  t.same(readdirSync(folder).sort(), ['deep', 'langgraph.json', 'long-folder', 'run.sh', 'src'])
})

const REFUSED: [title: string, message: RegExp, ...Entry[]][] = [
  ['a path with ..', /leads out of the archive/, { path: 'a/../../escape', text: 'x' }],
  ['an absolute path', /is absolute/, { path: '/tmp/escape', text: 'x' }],
  ['an absolute path in a pax header', /is absolute/, { path: 'a', name: '/tmp/escape', text: 'x' }],
  ['a path with .. in a pax header', /leads out of the archive/, { path: 'a', name: '../escape', text: 'x' }],
  ['a control character', /control characters/, { path: 'a\x01b', text: 'x' }],
  ['a link out', /links are not taken/, { path: 'link', type: '2', link: '/etc' }],
  [
    'a link, then a file through it',
    /links are not taken/,
    { path: 'd', type: '2', link: '/tmp' },
    { path: 'd/f', text: '' },
  ],
  ['a hard link', /links are not taken/, { path: 'link', type: '1', link: '/etc/passwd' }],
  ['a device', /neither a file nor a folder/, { path: 'dev', type: '3' }],
  ['a fifo', /neither a file nor a folder/, { path: 'fifo', type: '6' }],
  ['a file as a folder', /cannot be written/, { path: 'a', text: 'x' }, { path: 'a/b', text: 'x' }],
  ['a folder as a file', /cannot be written/, { path: 'a/b', text: 'x' }, { path: 'a', text: 'x' }],
  ['a name that is too long', /cannot be written/, { path: 'p', name: 'x'.repeat(300), text: 'x' }],
  ['a path that is too long', /longer than 1024/, { path: 'p', name: 'folder/'.repeat(200), text: 'x' }],
  ['too many folders', /more than 64 folders/, { path: 'p', name: 'a/'.repeat(70), text: 'x' }],
  ['too many bytes', /unpacks to more than 1048576 bytes/, { path: 'zeros', text: '\0'.repeat(2 * 1024 ** 2) }],
]

for (const [title, message, ...entries] of REFUSED)
  t.test(`refused: ${title}`, async t => {
    const folder = folderOf(t)
    await t.rejects(unpackAll(entries, folder), { name: 'Fault', message, retryable: false })
    t.notOk(readdirSync(tmpdir()).includes('escape'))
  })

t.test('too many entries', async t => {
  const entries = Array.from({ length: 101 }, (_, i) => ({ path: `${i}`, text: '' }))
  await t.rejects(unpackAll(entries, folderOf(t)), { message: /more than 100 files and folders/ })
})

t.test('a bomb is stopped by what it unpacks to', async t => {
  // 1 GB of zeros in 1 MB: only its first part is read.
  const bomb = gzipSync(Buffer.alloc(256 * 1024 ** 2))
  await t.rejects(unpackBytes(bomb, folderOf(t)), { name: 'Fault', message: /more than 1048576 bytes|no tar archive/ })
})

t.test('a body that is no archive', async t => {
  const good = gzipSync(tarOf([{ path: 'a', text: 'x'.repeat(5_000) }]))
  const tar = tarOf([{ path: 'a', text: 'x'.repeat(5_000) }])
  for (const [bytes, message] of [
    [good.subarray(0, good.length - 20), /no complete gzip archive/],
    [good.subarray(0, 5), /no complete gzip archive/],
    [Buffer.alloc(0), /no complete gzip archive|no tar archive/],
    [tar, /no complete gzip archive/],
    [Buffer.from('{"json": true}'), /no complete gzip archive/],
    [gzipSync(tar.subarray(0, 2_000)), /no tar archive/],
    [gzipSync('plain text, which is no tar archive'.repeat(100)), /no tar archive/],
    [gzipSync(good), /compressed twice/],
  ] as const)
    await t.rejects(unpackBytes(bytes, folderOf(t)), { name: 'Fault', message }, `${message}`)
})

t.test('an error of the source is passed on, and a stop ends it', async t => {
  async function* broken() {
    yield gzipSync(tarOf([{ path: 'a', text: 'x'.repeat(100_000) }])).subarray(0, 60)
    throw new RangeError('the source broke')
  }
  await t.rejects(unpack(broken(), folderOf(t), LIMITS, open), { name: 'RangeError', message: 'the source broke' })
  const stopped = AbortSignal.abort()
  const bytes = gzipSync(tarOf([{ path: 'a', text: 'x' }]))
  await t.rejects(unpack(pieces(bytes), folderOf(t), LIMITS, stopped), { name: 'Stopped' })
})
