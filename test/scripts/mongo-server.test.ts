import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { javaServer, repositoryOf } from '../../scripts/mongo/jars.js'
import { findMongo } from '../../scripts/mongo/server.js'

/** A folder with commands that always succeed, and an environment with no other commands. */
function fakeCommands(t: { teardown(undo: () => void): void }, ...commands: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'weft-mongo-find-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const name of commands) {
    writeFileSync(join(folder, name), '#!/bin/sh\nexit 0\n')
    chmodSync(join(folder, name), 0o755)
  }
  return { folder, env: { PATH: folder, HOME: folder, MAVEN_HOME: folder }, cache: join(folder, 'cache') }
}

t.test('the server of MONGODB_URL comes first, unless the test needs its own', async t => {
  const { env, cache } = fakeCommands(t, 'mongod')
  const url = 'mongodb://there:1'
  t.same(await findMongo({ env: { ...env, MONGODB_URL: url }, cache }), { kind: 'url', url })
  t.equal((await findMongo({ env: { ...env, MONGODB_URL: url }, cache, own: true })).kind, 'mongod')
})

t.test('then mongod, docker, a JDK, in this order', async t => {
  t.equal((await findMongo(fakeCommands(t, 'mongod', 'docker'))).kind, 'mongod')
  const way = await findMongo(fakeCommands(t, 'docker'))
  if (way.kind !== 'docker') throw new Error(`found ${way.kind}`)
  t.match(way.command('/data', 1234).join(' '), /^docker run .*127\.0\.0\.1:1234:27017 .*\/data:/)
})

t.test('without any server: one sentence that names the choices', async t => {
  const message = /no MongoDB server was found.*MONGODB_URL.*mongod.*docker.*apt-get install.*--embedded-only/
  await t.rejects(findMongo(fakeCommands(t)), { message })
})

t.test('an archive with another sum is refused and leaves no file', async t => {
  const server = createServer((_, answer) => answer.end('something else'))
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const { env, cache } = fakeCommands(t, 'java', 'javac')
  mkdirSync(cache)
  const repository = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await t.rejects(findMongo({ env, cache, repository }), { message: /has the sha256 [0-9a-f]{64}, expected/ })
  t.same(readdirSync(cache), [])
})

t.test('the sources are compiled without a locale', async t => {
  const { PATH, HOME } = process.env
  const env = { PATH, HOME }
  const found = await findMongo({ env, log: () => {} }).catch(() => null)
  if (found?.kind !== 'java') return t.plan(0, 'no JDK runs the server here')
  const jars = dirname(
    found
      .command('/data', 1)
      .find(part => part.endsWith('.jar'))!
      .split(':')
      .at(-1)!,
  )
  const server = createServer((request, answer) => answer.end(readFileSync(join(jars, basename(request.url!)))))
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const cache = t.testdir()
  const repository = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const command = await javaServer({ cache, env: { ...env, LC_ALL: 'C' }, log: () => {}, repository })
  t.equal(command?.at(-1), 'WeftTestMongo')
})

t.test('archives come from the mirror that Maven is configured for', t => {
  const { folder, env } = fakeCommands(t)
  t.match(repositoryOf(env), /^https:\/\/repo\.maven\.apache\.org\//)
  mkdirSync(join(folder, '.m2'))
  const mirror = (of: string, url: string) => `<mirror><mirrorOf>${of}</mirrorOf><url>${url}</url></mirror>`
  writeFileSync(
    join(folder, '.m2/settings.xml'),
    `<settings><mirrors><!-- ${mirror('central', 'https://no/')} -->${mirror('snapshots', 'https://other/')}${mirror('a,central', 'https://mirror/maven/')}</mirrors></settings>`,
  )
  t.equal(repositoryOf(env), 'https://mirror/maven')
  t.end()
})
