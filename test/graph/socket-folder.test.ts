/** Folders of sockets that an app host shares with its parent (workers/child/socket-folder.ts). */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openLog } from '../../bus/log.js'
import { root } from '../../cli/root.js'
import { EDGE_SOCKET } from '../../schemas/app-host.js'
import { openAppHost } from '../../workers/child/app-host.js'
import { aside, findHostUser } from '../../workers/child/process.js'
import { httpSocket, openSocketFolder, takeSocket } from '../../workers/child/socket-folder.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'
import { until } from '../helpers/until.js'

t.setTimeout(60_000)
const isRoot = process.getuid?.() === 0
const skip = isRoot ? false : 'needs root'
const user = isRoot ? findHostUser('nobody')! : null!

/** A short path: that of a socket is limited. It is the folder for temporary files of this process until the end. */
function temporary(t: Test): string {
  const before = process.env.TMPDIR
  const folder = mkdtempSync(join(tmpdir(), 'weft-s-'))
  chmodSync(folder, 0o1777)
  process.env.TMPDIR = folder
  t.teardown(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}

function listen(path: string) {
  let connections = 0
  const server = createServer(socket => {
    connections++
    socket.destroy()
  }).listen(path)
  return { close: () => server.close(), connections: () => connections }
}

/** How a connection of the user ends. */
const connectAs = (uid: number, gid: number, path: string): string =>
  spawnSync(
    PUBLIC_NODE,
    [
      '-e',
      `require('net').connect(process.argv[1]).on('connect', () => { console.log('connected'); process.exit() }).on('error', e => console.log(e.code))`,
      path,
    ],
    { ...aside(user), uid, gid, encoding: 'utf8' },
  ).stdout.trim()

t.test('the application cannot lead its parent to another socket', { skip }, async t => {
  const place = temporary(t)
  const secret = join(place, 'secret.sock')
  const victim = listen(secret)
  t.teardown(victim.close)
  const app = join(place, 'app')
  mkdirSync(app)
  writeFileSync(
    join(app, 'langgraph.json'),
    JSON.stringify({ graphs: { a: './a.mjs:a' }, http: { app: './app.mjs:app' } }),
  )
  // Exchanged at the moment at which it listens, before its parent hears of it.
  writeFileSync(
    join(app, 'app.mjs'),
    `import { renameSync, symlinkSync } from 'node:fs'
import { Server } from 'node:net'
const { listen } = Server.prototype
Server.prototype.listen = function (path, done) {
  return listen.call(this, path, () => {
    if (process.env.ATTACKS) { renameSync(path, path + '.was'); symlinkSync(${JSON.stringify(secret)}, path) }
    done()
  })
}
export const app = { fetch: () => new Response('mine') }`,
  )
  const start = (env: { [name: string]: string }) => {
    const sockets = openSocketFolder(user)
    const host = openAppHost({
      app: join(app, 'langgraph.json'),
      parts: ['http'],
      sockets: sockets.path,
      env: { PATH: process.env.PATH, ...env },
      memory_mb: 256,
      user,
      sandbox: null,
      node: PUBLIC_NODE,
      log: openLog('graphs', 'silent'),
    })
    t.teardown(async () => {
      await host.stop()
      sockets.remove()
    })
    return { host, sockets }
  }
  const honest = start({})
  t.match(await honest.host.hello, { error: null, http: ['/'] })
  t.ok(lstatSync(httpSocket(honest.sockets.path)).isSocket())
  t.equal(lstatSync(httpSocket(honest.sockets.path)).uid, user.uid)
  const hostile = start({ ATTACKS: '1' })
  t.match(await hostile.host.hello, { error: /has put something else in the place of its socket/ })
  t.equal(hostile.host.isReady(), false)
  t.notOk(existsSync(httpSocket(hostile.sockets.path)), 'there is nothing to connect to')
  t.equal(victim.connections(), 0)
})

t.test('the socket of the parent is for the user alone, who cannot exchange it', { skip }, async t => {
  temporary(t)
  const folder = openSocketFolder(user)
  t.teardown(() => folder.remove())
  const path = join(folder.path, EDGE_SOCKET)
  const server = listen(path)
  t.teardown(server.close)
  folder.admit(EDGE_SOCKET)
  t.equal(connectAs(user.uid, user.gid, path), 'connected')
  t.equal(connectAs(1, user.gid, path), 'EACCES')
  const move = spawnSync('/bin/sh', ['-c', 'mv "$1" "$1.was"', 'sh', path], { ...aside(user), stdio: 'ignore' })
  t.not(move.status, 0)
  t.ok(lstatSync(path).isSocket())
})

t.test('a socket of somebody else is not taken', { skip }, async t => {
  temporary(t)
  const folder = openSocketFolder(user)
  t.teardown(() => folder.remove())
  // A file of root: a system without fs.protected_hardlinks lets the user give it a second name.
  const server = listen(join(folder.path, 'app/app.sock'))
  t.teardown(server.close)
  t.throws(() => takeSocket(folder.path, user), /has put something else/)
})

t.test('a folder for temporary files that the user can change is refused', { skip }, async t => {
  chmodSync(temporary(t), 0o777)
  t.throws(() => openSocketFolder(user), /nobody can exchange what is in .*; expected TMPDIR below/)
})

t.test('a folder is removed at its end, or after the death of its process', async t => {
  const place = temporary(t)
  const own = () => readdirSync(place).filter(name => name.startsWith('weft-app-'))
  const one = openSocketFolder(null)
  const server = listen(join(one.path, 'some.sock'))
  t.same(own().length, 1)
  one.remove()
  t.same(own(), [])
  server.close()

  const program = `import { openSocketFolder } from ${JSON.stringify(new URL('../../workers/child/socket-folder.js', import.meta.url).href)}
    console.log(openSocketFolder(null).path)
    setInterval(() => {}, 1000)`
  const start = async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const [path] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
    return { child, path: path.trim() }
  }
  const [dead, living] = [await start(), await start()]
  dead.child.kill('SIGKILL')
  await once(dead.child, 'exit')
  const probe = join(place, 'weft-edge-1')
  mkdirSync(probe)
  utimesSync(probe, 0, 0)
  mkdirSync(join(dead.path, 'app/more'))
  symlinkSync('/', join(dead.path, 'app/link'))
  for (const { path } of [dead, living]) utimesSync(path, 0, 0)
  const next = openSocketFolder(null)
  await until(async () => !existsSync(dead.path) && !existsSync(probe))
  t.ok(existsSync(living.path))
  next.remove()
})
