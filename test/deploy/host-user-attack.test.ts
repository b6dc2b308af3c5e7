/** WEFT_HOST_USER: what a build leaves behind cannot lead the deploy worker and the graph workers, which run as root. */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../cli/root.js'
import { venvOf } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'
import { controlOf, deployEnv } from './control.js'
import { makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(300_000)
const NOBODY = 65_534
/** A Python that everybody can execute: the first one on PATH may be in a folder of root. */
const publicPython = (): string =>
  spawnSync('sh', ['-c', 'command -v python3'], { uid: NOBODY, gid: NOBODY, cwd: '/', encoding: 'utf8' }).stdout.trim()
const skip =
  process.getuid?.() !== 0 ? 'needs root' : publicPython() === '' ? 'no Python for all users is installed' : false

/** A folder of root that nobody else can enter, with a file of variables, and a folder where all users can write. */
function places(t: Test) {
  const place = mkdtempSync(join(tmpdir(), 'weft-attack-'))
  t.teardown(() => rmSync(place, { recursive: true, force: true }))
  chmodSync(place, 0o755)
  const [closed, open] = [join(place, 'closed'), join(place, 'open')]
  mkdirSync(join(closed, 'inner'), { recursive: true })
  writeFileSync(join(closed, 'env'), 'STOLEN=secret\n', { mode: 0o600 })
  writeFileSync(join(closed, 'inner/file'), 'x', { mode: 0o600 })
  chmodSync(closed, 0o700)
  mkdirSync(open)
  chmodSync(open, 0o777)
  return { place, closed, open }
}

const GRAPH = `
import os
from langgraph.graph import START, StateGraph
from typing import TypedDict


class State(TypedDict, total=False):
    uid: int
    stolen: str | None
    cwd: str


async def node(state: State) -> State:
    return {"uid": os.getuid(), "stolen": os.environ.get("STOLEN"), "cwd": os.getcwd()}


graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
`

t.test('a build that replaces its interpreter, its settings and its folders', { skip }, async t => {
  const { place, closed, open } = places(t)
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'), publicPython())
  const shared = join(place, 'python')
  cpSync(join(python, '../..'), shared, { recursive: true, verbatimSymlinks: true })
  const env = { ...deployEnv(folder), WEFT_HOST_USER: 'nobody', WEFT_HOST_NODE: PUBLIC_NODE }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  // It goes on in the folder of the build, has left its process group, and cannot be told by its environment.
  const exchanging = `echo $$ > ${open}/pid
while mkdir -p a/b 2>/dev/null; do
  sleep 0.02
  mv a was 2>/dev/null && ln -s ${closed} a && rm -f a; mv was a 2>/dev/null
  [ -d ${open} ] || exit
done`
  const repository = makeRepository(folder, 'hostile', {
    'langgraph.json': JSON.stringify({ graphs: { agent: './agent.py:graph' }, env: '.env', dependencies: [] }),
    'agent.py': GRAPH,
    'python.sh': `#!/bin/sh\nid -u >> ${open}/users\nexec ${shared}/bin/python "$@"\n`,
    'exchange.sh': exchanging,
    'build.sh': `set -e
mkdir -p .venv/bin && cp python.sh .venv/bin/python && chmod 755 .venv/bin/python
rm -f .env && ln -s ${closed}/env .env
mkdir -p "$HOME/.config/pip" && ln -sfn ${closed} "$HOME/.config/pip/closed" && ln -sf ${closed}/env "$HOME/.config/pip/pip.conf"
ln -sfn ${closed} "$TMPDIR/closed"
env -i PATH="$PATH" setsid sh exchange.sh </dev/null >/dev/null 2>&1 &
while [ ! -s ${open}/pid ]; do sleep 0.01; done
`,
  })
  const config = { install_command: 'sh build.sh' }
  const made = await control.create('hostile', repository.url, { config })
  const pid = () => Number(readFileSync(join(open, 'pid'), 'utf8'))
  t.teardown(() => existsSync(join(open, 'pid')) && kill(pid()))
  await control.deployed(made)
  const run = () => lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: {} })
  t.match(await run(), { uid: NOBODY, stolen: null })
  const users = () => new Set(readFileSync(join(open, 'users'), 'utf8').trim().split('\n'))
  t.same(users(), new Set([`${NOBODY}`]), 'its interpreter is not executed by root, by neither worker')
  t.ok(existsSync(`/proc/${pid()}`), 'the process that exchanges folders was there all the time')

  // The home of the deployment is that of the user now, with what the first build has left there.
  repository.commit({ 'more.txt': '1' })
  await control.deployed(await control.again(made.id))
  t.match(await run(), { uid: NOBODY, stolen: null })
  await control.remove(made.id)
  await until(async () => !existsSync(join(cluster.data, 'deploy/home', made.id)))
  t.same(users(), new Set([`${NOBODY}`]))
  for (const [name, mode] of [
    ['', 0o40700],
    ['env', 0o100600],
    ['inner', 0o40755],
    ['inner/file', 0o100600],
  ] as const)
    t.match(statSync(join(closed, name)), { uid: 0, gid: 0, mode }, `${name || 'the closed folder'} is as before`)
})

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
