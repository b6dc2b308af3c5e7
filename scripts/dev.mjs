// npm run dev: a server from this clone that is built and started again when a source changes. Arguments are those of
// `weft start`. Threads stay in the data folder, and runs that were under way go on. A build that fails leaves the server as it is.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { watch } from 'chokidar'

const root = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
const SOURCES = ['schemas', 'bus', 'store', 'edge', 'workers', 'handler', 'cli', 'console/src']
const ENDINGS = /\.(ts|tsx|css|mjs|py)$/
/** An editor writes several files at once. */
const PAUSE_MS = 50

const say = line => process.stderr.write(`dev: ${line}\n`)
if (!args.includes('--app')) args.unshift('--app', join(root, 'examples/chat/langgraph.json'))

let server = null
let changed = null
let timer

function build() {
  return spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { cwd: root, stdio: 'inherit' }).status === 0
}

function start() {
  const child = spawn(process.execPath, [join(root, 'dist/cli/weft.js'), 'start', ...args], { stdio: 'inherit' })
  child.once('exit', code => {
    if (server !== child) return
    say(`the server has ended with code ${code}; waiting for a change`)
    server = null
  })
  server = child
}

async function stop() {
  const child = server
  server = null
  if (child === null || child.exitCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

async function restart() {
  const since = performance.now()
  say(`${changed} has changed`)
  changed = null
  if (!build()) return say('the build failed: the server before it goes on')
  const built = performance.now()
  await stop()
  start()
  say(`built in ${Math.round(built - since)} ms, stopped in ${Math.round(performance.now() - built)} ms`)
}

let work = Promise.resolve()
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    work = work.then(stop).then(() => process.exit(0))
  })

if (!build()) process.exit(1)
start()
watch(
  SOURCES.map(folder => join(root, folder)),
  {
    ignoreInitial: true,
    ignored: (path, stats) => /node_modules|__pycache__/.test(path) || (stats?.isFile() && !ENDINGS.test(path)),
  },
).on('all', (_, path) => {
  changed = relative(root, path)
  clearTimeout(timer)
  timer = setTimeout(() => (work = work.then(() => changed && restart())), PAUSE_MS)
})
