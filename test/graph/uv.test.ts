/** Finds or downloads uv (workers/child/uv.ts). */
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { withoutPython } from '../../scripts/checks/venv.js'
import { findUv, UV_VERSION } from '../../workers/child/uv.js'
import { makeWheel } from '../helpers/wheels.js'

const skip = withoutPython() ?? (process.platform === 'linux' ? false : 'the wheel of this test is for Linux')
const program = (version: string) => `#!/bin/sh\necho "uv ${version}"\n`

/** An index with a wheel of uv for this platform, and how often it was asked. */
async function indexWith(folder: string) {
  const wheels = join(folder, 'wheels')
  mkdirSync(wheels)
  makeWheel(wheels, 'uv', UV_VERSION, { [`uv-${UV_VERSION}.data/scripts/uv`]: program(UV_VERSION) })
  const bytes = readFileSync(join(wheels, readdirSync(wheels)[0]!))
  const file = `uv-${UV_VERSION}-py3-none-musllinux_1_1_${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.whl`
  const requests: string[] = []
  const server = createServer(({ url }, answer) => {
    requests.push(url!)
    answer.end(url === '/simple/uv/' ? `<a href="../../files/${file}">${file}</a>` : bytes)
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const pinned = { [file]: createHash('sha256').update(bytes).digest('hex') }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple`
  return { url, pinned, file, requests, size: bytes.length }
}

/** A PATH with a shell, and this uv if one is given. */
function pathWith(folder: string, name: string, version?: string): string {
  const bin = join(folder, name)
  mkdirSync(bin)
  symlinkSync('/bin/sh', join(bin, 'sh'))
  if (version === undefined) return bin
  writeFileSync(join(bin, 'uv'), program(version))
  chmodSync(join(bin, 'uv'), 0o755)
  return bin
}

t.test('on PATH, else downloaded once and kept', { skip }, async t => {
  const folder = t.testdir()
  const { url, pinned, requests, size } = await indexWith(folder)
  const lines: string[] = []
  const parts: [number, number][] = []
  const cache = join(folder, 'cache')
  const find = (PATH: string, fetches = true, more = {}) => {
    const env = { PATH, HOME: folder, PIP_CONFIG_FILE: '/dev/null', PIP_INDEX_URL: url, ...more }
    const received = (done: number, total: number) => void parts.push([done, total])
    return findUv({ env, cache, fetches, log: line => lines.push(line), pinned, received })
  }
  t.match(await find(pathWith(folder, 'new', '0.8.0')), { file: 'uv' })
  const bare = pathWith(folder, 'bare')
  t.equal(await find(bare, false), null, 'forbidden')
  t.equal(await find(bare, true, { PIP_NO_INDEX: '1' }), null, 'pip has a setting that uv does not read')
  t.same([requests, lines], [[], []])
  const both = await Promise.all([find(bare), find(bare)])
  const file = join(cache, `uv-${UV_VERSION}`, 'uv')
  t.match(both, [{ file, env: { UV_DEFAULT_INDEX: url } }, { file }])
  t.match(lines, [/^getting uv .* from 127\.0\.0\.1:\d+, .* \(WEFT_FETCH_UV=0 forbids it\)$/, /^getting uv/])
  t.same(readdirSync(cache), [`uv-${UV_VERSION}`], 'nothing else is left behind')
  t.same(parts.at(-1), [size, size], 'the last part completes the wheel')
  const linked = await find(bare, true, { PIP_FIND_LINKS: `${folder} /missing\nhttps://links.example/` })
  t.match(linked, { env: { UV_FIND_LINKS: `${folder},https://links.example/` } }, 'uv reads the links of pip')
  const asked = requests.length
  t.match(await find(pathWith(folder, 'old', '0.7.22')), { file }, 'the one on PATH is too old')
  t.equal(requests.length, asked)
})

t.test('pip installs when uv cannot be downloaded, or is not the pinned one', { skip }, async t => {
  const folder = t.testdir()
  const { url, file } = await indexWith(folder)
  const bare = pathWith(folder, 'bare')
  for (const [index, pinned, why] of [
    ['http://127.0.0.1:1/simple', {}, /^there is no uv, so pip installs: 127\.0\.0\.1:1: /],
    [url, {}, /the index has no known wheel of uv for/],
    [url, { [file]: '0'.repeat(64) }, /has the sha256 [0-9a-f]+, expected 0000/],
  ] as const) {
    const lines: string[] = []
    const env = { PATH: bare, HOME: folder, PIP_CONFIG_FILE: '/dev/null', PIP_INDEX_URL: index }
    const options = {
      env,
      cache: join(folder, 'cache'),
      fetches: true,
      log: (line: string) => lines.push(line),
      pinned,
    }
    t.equal(await findUv(options), null)
    t.match(lines.at(-1), why)
    t.notOk(existsSync(join(folder, 'cache', `uv-${UV_VERSION}`)))
  }
})
