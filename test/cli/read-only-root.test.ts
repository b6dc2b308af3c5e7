/** The server as its image runs it: root read-only but for /tmp, the data in a volume, a user without rights. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { below } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

const USER = 10_001
const isRoot = process.getuid?.() === 0
const hasBwrap = spawnSync('bwrap', ['--version']).error === undefined
const skip = isRoot && hasBwrap ? false : 'needs bubblewrap, and root, which gives its rights up'

t.test('nothing is written outside of the data folder and /tmp', { skip }, async t => {
  const data = mkdtempSync(join(tmpdir(), 'weft-data-'))
  t.teardown(() => rmSync(data, { recursive: true, force: true }))
  chownSync(data, USER, USER)
  const port = await freePort()
  const node = realpathSync(process.execPath)
  // Other users may not reach what is in the home of this one.
  const places = { [root]: '/srv/weft', [dirname(node)]: '/srv/node', [dirname(await findNatsServer())]: '/srv/nats' }
  const mounts = [
    ...[
      '--ro-bind',
      '/',
      '/',
      '--dev',
      '/dev',
      '--proc',
      '/proc',
      '--perms',
      '1777',
      '--tmpfs',
      '/tmp',
      '--tmpfs',
      '/srv',
    ],
    ...Object.entries(places).flatMap(([from, to]) => ['--perms', '0755', '--dir', to, '--ro-bind', from, to]),
    ...['--bind', data, '/mnt', '--remount-ro', '/srv', '--die-with-parent', '--chdir', '/srv/weft/test/apps/basic'],
  ]
  const user = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all']
  const weft = ['/srv/node/node', '/srv/weft/dist/cli/weft.js', 'start', '--app', '.', '--port', `${port}`]
  const child = spawn('bwrap', [...mounts, 'setpriv', ...user, ...weft], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // As the Dockerfile has it.
    env: {
      PATH: '/srv/nats:/usr/bin:/bin',
      HOME: '/home/weft',
      WEFT_DATA: '/mnt',
      XDG_CACHE_HOME: '/mnt/cache',
      LOG_FORMAT: 'json',
    },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => (output += part))
  t.teardown(() => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  await until(async () => {
    if (child.exitCode !== null) throw new Error(output)
    return (await fetch(`${url}/ready`).catch(() => null))?.ok
  })
  const launcher = below(child.pid!)[0]!
  t.match(readFileSync(`/proc/${launcher}/status`, 'utf8'), new RegExp(`Uid:\\s+${USER}[^]*CapEff:\\s+0+\n`))
  const ask = async (path: string, body?: object) => {
    const answer = await fetch(url + path, body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) })
    return { status: answer.status, text: await answer.text() }
  }
  t.match(await ask('/runs/wait', { assistant_id: 'counter', input: { steps: 2 } }), {
    status: 200,
    text: /"numbers":\[1,2\]/,
  })
  const assistants = JSON.parse((await ask('/assistants/search', { graph_id: 'counter' })).text) as {
    assistant_id: string
  }[]
  t.match(await ask(`/assistants/${assistants[0]!.assistant_id}/schemas`), { status: 200 })
  t.match(await ask('/console'), { status: 200 })
  const over = once(child, 'exit')
  process.kill(launcher, 'SIGTERM')
  t.same(await over, [0, null])
  t.notMatch(output, /EROFS|EACCES|"level":[56]0/)
  t.ok(readdirSync(data).includes('weft.db'))
})
