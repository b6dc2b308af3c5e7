import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openRedactor } from '../../schemas/redact.js'
import { findHostUser } from '../../workers/child/process.js'
import { erase, give } from '../../workers/child/user-tree.js'
import { openLimit } from '../../workers/deploy/limit.js'
import { keyOf, openArtefacts } from '../../workers/deploy/process/artefacts.js'
import { run, runOrFail } from '../../workers/deploy/process/command.js'
import { describe } from '../../workers/deploy/process/describe.js'
import { buildEnv, detect, runBuild, runInstall } from '../../workers/deploy/process/install.js'
import { MARK } from '../../workers/deploy/process/leftovers.js'
import { findMissing } from '../../workers/deploy/process/managers.js'
import { ownFolder } from '../../workers/deploy/process/owner.js'
import { javascriptProbe, probe } from '../../workers/deploy/process/probe.js'
import { openRecords } from '../../workers/deploy/process/records.js'
import { problemsOf, sizeOf } from '../../workers/deploy/process/size.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'
import { aliasedApplication, application } from './repository.js'

t.setTimeout(120_000)

const never = new AbortController().signal
const quiet = () => {}
/** Marks the processes of this file: others that run beside it are not ended with them. */
const mark = `build-${process.pid}.`
const redactor = openRedactor([])
type T = { teardown(work: () => unknown): void }

function folder(t: T, files: { [path: string]: string } = {}): string {
  const made = mkdtempSync(join(tmpdir(), 'weft-build-'))
  t.teardown(() => erase(made))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(made, path)), { recursive: true })
    writeFileSync(join(made, path), text)
  }
  return made
}

t.test('the install command follows the lock file', async t => {
  const find = async (files: { [path: string]: string }, inner = '') => {
    const tree = folder(t, files)
    const found = await detect({ tree, folder: join(tree, inner), user: null })
    return found === null ? null : `${found.words.join(' ')} in ${found.cwd.slice(tree.length) || '/'}`
  }
  const lock = { 'package.json': '{}', 'package-lock.json': '{}' }
  t.equal(await find({ ...lock, 'yarn.lock': '', 'pnpm-lock.yaml': '' }), 'yarn install --frozen-lockfile in /')
  t.equal(await find({ ...lock, 'yarn.lock': '__metadata:\n' }), 'yarn install --immutable in /')
  t.equal(await find({ ...lock, 'pnpm-lock.yaml': '', 'bun.lockb': '' }), 'pnpm install --frozen-lockfile in /')
  t.equal(await find({ ...lock, 'bun.lockb': '' }), 'npm ci --no-audit --no-fund in /')
  t.equal(await find({ 'package.json': '{}', 'bun.lockb': '' }), 'bun install --frozen-lockfile in /')
  t.equal(await find({ 'package.json': '{"packageManager":"pnpm@9.0.0"}' }), 'pnpm install in /')
  t.equal(await find({ 'package.json': '{"devEngines":{"packageManager":{"name":"yarn"}}}' }), 'yarn install in /')
  t.equal(await find({ 'package.json': '{"packageManager":"constructor@1"}' }), 'npm install --no-audit --no-fund in /')
  t.equal(await find({ 'package.json': '{}' }), 'npm install --no-audit --no-fund in /')
  t.equal(await find({ 'README.md': '' }), null)
  t.equal(await find({ 'in/package.json': '{}', 'yarn.lock': '' }, 'in'), 'yarn install --frozen-lockfile in /', 'root')
  t.equal(
    await find({ ...lock, 'in/pnpm-lock.yaml': '' }, 'in'),
    'pnpm install --frozen-lockfile in /in',
    'inner first',
  )
  const workspace = { 'js/pnpm-lock.yaml': '', 'js/apps/agent/package.json': '{}', ...lock }
  t.equal(
    await find(workspace, 'js/apps/agent'),
    'pnpm install --frozen-lockfile in /js',
    'of the nearest folder above',
  )
  await t.rejects(find({ 'package.json': '{' }), /not valid JSON/)
})

t.test('a package manager that is not on PATH', async t => {
  const missing = async (files: { [path: string]: string }, manager = 'pnpm', declared = '') =>
    (
      await findMissing({
        manager,
        cwd: folder(t, files),
        declared,
        env: { PATH: '/nowhere', HOME: '/home/d' },
        user: null,
      })
    )?.package
  t.equal(await missing({ 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" }), 'pnpm@10')
  t.equal(await missing({ 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }), 'pnpm@7')
  t.equal(await missing({ 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" }), 'pnpm@8')
  t.equal(await missing({}, 'pnpm', 'pnpm@9.1.0+sha512.abc'), 'pnpm@9.1.0')
  t.equal(await missing({}, 'pnpm', 'yarn@1.22.0'), 'pnpm@10', 'of another manager')
  t.equal(await missing({}, 'pnpm', 'pnpm@file:/etc'), 'pnpm@10', 'no version')
  t.equal(await missing({ 'yarn.lock': '# yarn lockfile v1\n' }, 'yarn'), 'yarn@1')
  t.equal(await missing({ 'yarn.lock': '__metadata:\n' }, 'yarn'), '@yarnpkg/cli-dist@4')
  t.equal(await missing({}, 'yarn', 'yarn@4.5.0'), '@yarnpkg/cli-dist@4.5.0')
  t.equal(await missing({}, 'npm'), undefined)
  const env = { PATH: dirname(process.execPath), HOME: '/home/d' }
  t.equal(await findMissing({ manager: 'node', cwd: '/', declared: '', env, user: null }), null)

  const bin = folder(t)
  const program = (at: string, text: string) => writeFileSync(at, `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  // In place of npm, which would ask a registry.
  const pnpm = `mkdir -p "$3/node_modules/.bin"; printf '#!/bin/sh\\necho "$0 $*" >> made\\n' > "$3/node_modules/.bin/pnpm"`
  program(join(bin, 'npm'), `${pnpm}; chmod +x "$3/node_modules/.bin/pnpm"; echo "$@" > "$3/asked"`)
  const tree = folder(t, { 'package.json': '{"packageManager":"pnpm@9.1.0"}', 'pnpm-lock.yaml': '', 'in/x': '' })
  const home = folder(t)
  const building = {
    tree,
    folder: join(tree, 'in'),
    env: { PATH: `${bin}:/usr/bin:/bin`, HOME: home, TMPDIR: home },
    install_command: null,
    build_command: 'pnpm run it',
    python: null,
    redactor,
    limit: { folders: [tree], bytes: 1024 ** 3 },
    user: null,
  }
  await runInstall(building, never, quiet)
  await runBuild(building, never, quiet)
  const at = join(home, 'package-managers/pnpm_9.1.0')
  t.match(readFileSync(join(at, 'asked'), 'utf8'), /^install --prefix \S+ .*pnpm@9\.1\.0$/m)
  t.equal(readFileSync(join(tree, 'made'), 'utf8'), `${at}/node_modules/.bin/pnpm install --frozen-lockfile\n`)
  t.equal(readFileSync(join(tree, 'in/made'), 'utf8'), `${at}/node_modules/.bin/pnpm run it\n`, 'the build finds it')
})

t.test('a workspace of npm', async t => {
  const tree = folder(t, {
    'package.json': '{"name":"root","private":true,"workspaces":["packages/*","apps/*"]}',
    'packages/lib/package.json': '{"name":"lib","version":"1.0.0","main":"index.js"}',
    'packages/lib/index.js': 'module.exports = "lib"',
    'apps/agent/package.json': '{"name":"agent","version":"1.0.0","dependencies":{"lib":"1.0.0"}}',
    'package-lock.json': JSON.stringify({
      name: 'root',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { name: 'root', workspaces: ['packages/*', 'apps/*'] },
        'apps/agent': { version: '1.0.0', dependencies: { lib: '1.0.0' } },
        'node_modules/agent': { resolved: 'apps/agent', link: true },
        'node_modules/lib': { resolved: 'packages/lib', link: true },
        'packages/lib': { version: '1.0.0' },
      },
    }),
  })
  const home = folder(t)
  const env = { PATH: process.env.PATH, HOME: home, TMPDIR: home, CI: '1' }
  const limit = { folders: [tree], bytes: 1024 ** 3 }
  const inner = join(tree, 'apps/agent')
  const commands = { install_command: null, build_command: `node -e "require('lib')"` }
  const building = { tree, folder: inner, env, ...commands, python: null, redactor, limit, user: null }
  await runInstall(building, never, quiet)
  await runBuild(building, never, quiet)
  t.equal(realpathSync(join(tree, 'node_modules/lib')), realpathSync(join(tree, 'packages/lib')))
})

t.test('installing and building', async t => {
  const tree = folder(t, { 'package.json': '{"name":"x"}', 'in/langgraph.json': '{}' })
  const home = folder(t)
  const secretive = { ...process.env, SECRET_KEY: 'hush', NATS_URL: 'nats://x', WEFT_DATA: '/x', MINE: 'seen' }
  const facts = { repo: 'r', ref: 'main', commit: 'abc' }
  const env = buildEnv(secretive, { home, temporary: folder(t), mark: `${mark}0`, more: ['MINE'], facts })
  const limit = { folders: [tree], bytes: 1024 ** 3 }
  const building = {
    tree,
    folder: join(tree, 'in'),
    env,
    install_command: null,
    build_command: null,
    python: null,
    redactor,
    limit,
    user: null,
  }
  await runInstall(building, never, quiet)
  const install_command = 'pwd > where && env > seen'
  await runInstall({ ...building, install_command }, never, quiet)
  t.equal(readFileSync(join(tree, 'where'), 'utf8').trim(), tree, 'an install command runs in the root')
  const seen = readFileSync(join(tree, 'seen'), 'utf8')
  t.notMatch(seen, /SECRET_KEY|NATS_URL|WEFT_DATA/)
  t.match(seen, /^MINE=seen$/m)
  t.match(seen, /^LANGSMITH_LANGGRAPH_GIT_REF_SHA=abc$/m)
  t.match(seen, new RegExp(`^HOME=${home}$`, 'm'))
  await runBuild({ ...building, build_command: 'pwd > where' }, never, quiet)
  t.equal(
    readFileSync(join(tree, 'in/where'), 'utf8').trim(),
    join(tree, 'in'),
    'a build command beside the description',
  )
  const lines: string[] = []
  const fails = runBuild({ ...building, build_command: 'echo trying && echo no luck && exit 3' }, never, (_, text) =>
    lines.push(text),
  )
  await t.rejects(fails, { message: 'build failed (exit code 3): no luck', retryable: false })
  t.same(lines.slice(1), ['trying', 'no luck'])
})

t.test('commands', async t => {
  const cwd = folder(t)
  const command = (text: string, timeout_ms = 20_000) => ({
    name: 'it',
    file: 'sh',
    args: ['-c', text],
    cwd,
    env: { PATH: process.env.PATH },
    timeout_ms,
    redactor,
  })
  const pidIn = async (file: string) => {
    while (!existsSync(join(cwd, file)) || readFileSync(join(cwd, file), 'utf8') === '') await sleep(10)
    return Number(readFileSync(join(cwd, file), 'utf8'))
  }
  const isRunning = (pid: number) => {
    try {
      return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    } catch {
      return false
    }
  }
  const gone = async (pid: number) => {
    while (isRunning(pid)) await sleep(10)
  }

  await t.test('arguments are not interpreted by a shell', async t => {
    const read: string[] = []
    await runOrFail(
      { ...command(''), file: 'printf', args: ['%s\n', '$(id) `id` "; id'], read: line => read.push(line) },
      never,
      quiet,
    )
    t.same(read, ['$(id) `id` "; id'])
  })
  await t.test('the reason of a failure is the last line that is no hint', async t => {
    const failed = (text: string) => runOrFail(command(`${text}; exit 1`), never, quiet)
    await t.rejects(failed("echo 'no version of a'; echo; echo '  hint: try another index'"), {
      message: 'it failed (exit code 1): no version of a',
    })
    await t.rejects(failed('true'), { message: 'it failed (exit code 1): no output' })
  })
  await t.test('a command leaves no process behind', async t => {
    await runOrFail(command('sleep 1000 & echo $! > left'), never, quiet)
    await gone(await pidIn('left'))
    t.pass('the background process was killed')
    const stop = new AbortController()
    const stopped = run(command('sleep 1000 & echo $! > child; wait'), stop.signal, quiet)
    const child = await pidIn('child')
    stop.abort()
    await t.rejects(stopped, { name: 'Stopped' })
    await gone(child)
    await t.rejects(run(command('sleep 1000', 200), never, quiet), /did not end within 0.2 s/)
  })
  await t.test('a command leaves no daemon behind', { skip: process.platform !== 'linux' }, async t => {
    const env = { PATH: process.env.PATH, [MARK]: `${mark}3` }
    const daemon = "setsid sh -c 'echo $$ > daemon; sleep 1000' & while [ ! -s daemon ]; do sleep 0.01; done"
    await runOrFail({ ...command(daemon), env }, never, quiet)
    t.notOk(isRunning(await pidIn('daemon')), 'it has left the process group, and held the output open')
    rmSync(join(cwd, 'daemon'))
    const stop = new AbortController()
    const stopped = run({ ...command(`${daemon}; sleep 1000`), env }, stop.signal, quiet)
    const pid = await pidIn('daemon')
    stop.abort()
    await t.rejects(stopped, { name: 'Stopped' })
    t.notOk(isRunning(pid), 'also when the command is stopped')
  })
  await t.test('a command ends when its parent is killed', async t => {
    const program = `import { run } from ${JSON.stringify(new URL('../../workers/deploy/process/command.js', import.meta.url).href)}
      await run({ ...${JSON.stringify(command('echo $$ > orphan; sleep 1000'))}, redactor: { redact: text => text, longest: 0 } }, new AbortController().signal, () => {})`
    t.throws(() =>
      execFileSync(process.execPath, ['--input-type=module', '-e', program], {
        timeout: 3_000,
        killSignal: 'SIGKILL',
        stdio: 'ignore',
      }),
    )
    await gone(await pidIn('orphan'))
    t.pass()
  })
  await t.test('output arrives by line, without colours, and cut', async t => {
    const said: string[] = []
    await runOrFail(
      command("printf 'a\\033[31mred\\033[0m\\r\\nb\\rc'; head -c 40000 /dev/zero | tr '\\0' x; echo; echo d"),
      never,
      (_, text) => said.push(text),
    )
    t.same(said.slice(0, 2), ['ared', 'b'])
    t.ok(said.every(line => line.length <= 16 * 1024 + 1))
    t.match(said[2], /^cx+…$/)
    t.same(said.slice(3), ['d'])
  })
  await t.test('secrets are redacted before a line is cut', async t => {
    const secret = `top-secret-${'s'.repeat(100)}-end`
    const said: string[] = []
    const before = 16 * 1024 - 20
    const text = `head -c ${before} /dev/zero | tr '\\0' x; printf %s ${secret}`
    // Within a line; at the point where an endless line is cut; at the end of the output.
    const endless = `head -c 100000 /dev/zero | tr '\\0' y`
    const late = `printf '%s' "$(head -c 32700 /dev/zero | tr '\\0' z)${secret}"; sleep 0.1; ${endless}`
    const script = `echo one ${secret}; ${text}; ${endless}; echo; ${text}; echo; ${late}; echo; ${text}; exit 3`
    const failed = runOrFail({ ...command(script), redactor: openRedactor([secret]) }, never, (_, line) =>
      said.push(line),
    )
    await t.rejects(failed, { message: /^it failed \(exit code 3\): x+/ })
    t.equal(said[0], 'one [redacted]')
    t.equal(said.length, 5)
    t.notMatch(said.join('\n'), /secret|sss/)
  })
  await t.test('a command that exceeds its byte limit is killed', async t => {
    const limit = { folders: [cwd], bytes: 1_000_000, hint: 'WEFT_BUILD_DISK_MB allows more' }
    const write = 'mkdir -p deep/er && head -c 3000000 /dev/urandom > deep/er/large'
    const why = /^it used more than 1000000 bytes of disk space; WEFT_BUILD_DISK_MB allows more$/
    await t.rejects(run({ ...command(`${write}; sleep 1000`), limit }, never, quiet), { message: why }, 'while it runs')
    await t.rejects(run({ ...command(write), limit }, never, quiet), { message: why }, 'and at its end')
  })
})

t.test('the description', async t => {
  const tree = folder(t, {
    'langgraph.json': '{"graphs":{"a":"./a.ts:graph","b":{"path":"./b.js:make"}}}',
    'deep/graph.json': '{"graphs":{"c":"./c.mjs:graph"}}',
    'python.json': '{"graphs":{"a":"./agent.py:graph"}}',
    'auth.json': '{"graphs":{"a":"./a.ts:graph"},"auth":{"path":"./auth.py:auth"}}',
    'none.json': '{"graphs":{}}',
    'odd.json': '{"graphs":{"a":"./a.ts"}}',
    'broken.json': '{',
    'empty/x': '',
  })
  const outside = folder(t, { 'langgraph.json': '{"graphs":{"a":"./a.ts:graph"}}' })
  symlinkSync(join(outside, 'langgraph.json'), join(tree, 'out.json'))
  symlinkSync(outside, join(tree, 'out'))
  t.match(await describe(tree, 'langgraph.json'), { file: 'langgraph.json', graphs: ['a', 'b'] })
  t.match(await describe(tree, './deep'), { file: 'deep/graph.json', folder: join(tree, 'deep'), graphs: ['c'] })
  t.match(await describe(tree, 'langgraph.json'), { languages: ['javascript'], python: null })
  t.match(await describe(tree, 'python.json'), { languages: ['python'], python: { folder: tree } })
  t.match(await describe(tree, 'auth.json'), { languages: ['javascript'], python: { folder: tree } })
  const refused: [string, RegExp][] = [
    ['absent.json', /the commit has no absent.json/],
    ['empty', /no langgraph.json or graph.json in empty/],
    ['none.json', /names no graphs/],
    ['odd.json', /must be given as "file:export"/],
    ['broken.json', /not valid JSON/],
    ['out.json', /leads out of the repository/],
    ['out', /leads out of the repository/],
    ['../x', /must stay within/],
    ['/etc/passwd', /must stay within/],
  ]
  for (const [path, why] of refused) await t.rejects(describe(tree, path), why, path)
})

t.test('the probe', async t => {
  const env = { PATH: process.env.PATH ?? '', TOKEN: 'there' }
  const check = (tree: string, say: (level: string, text: string) => void = quiet) =>
    probe(
      {
        app: join(tree, 'langgraph.json'),
        env,
        program: javascriptProbe(process.execPath, 256),
        redactor,
        user: null,
        sandbox: null,
        mark: `${mark}1`,
      },
      never,
      say,
    )
  t.same(await check(folder(t, application('x'))), [{ graph_id: 'agent', description: null }])
  t.equal((await check(folder(t, aliasedApplication))).length, 1, 'path aliases and relative files are found')
  const throwing = folder(t, {
    ...application('x'),
    'graph.mjs': 'function deep() { throw new Error("no key") }\ndeep()\n',
  })
  const said: string[] = []
  await t.rejects(
    check(throwing, (_, text) => said.push(text)),
    { message: /Graph "agent" cannot be loaded: no key/, retryable: false },
  )
  t.match(said.join('\n'), /at deep .*graph\.mjs:1/, 'the stack is in the log')
  const two = {
    ...application('x'),
    'langgraph.json': '{"graphs":{"agent":"./graph.mjs:graph","other":"./graph.mjs:nope"}}',
  }
  await t.rejects(check(folder(t, two)), /no export named "nope"/, 'one of two')
  const exits = folder(t, { ...application('x'), 'graph.mjs': 'process.exit(7)' })
  await t.rejects(check(exits), /the process ended \(exit code 7\)/)
  const asks = folder(t, {
    ...application('x'),
    'graph.mjs': `if (process.env.TOKEN !== "there") throw new Error("unset")\n${application('x')['graph.mjs']}`,
  })
  t.equal((await check(asks)).length, 1, 'it has the environment of the application')
  const talks = folder(t, {
    ...application('x'),
    'graph.mjs': `import { spawn } from 'node:child_process'
process.send?.('ready')
spawn('sleep', ['1000'], { detached: true, stdio: 'inherit' })
${application('x')['graph.mjs']}`,
  })
  t.equal((await check(talks)).length, 1, 'neither a message nor a daemon of the application disturbs it')
  for (const text of ['{"cmd":"NODE_ACK"}\\n', 'no JSON\\n', '['.repeat(1_000)]) {
    const writes = `import { writeSync } from 'node:fs'\nwriteSync(3, '${text}')\n${application('x')['graph.mjs']}`
    await t.rejects(
      check(folder(t, { ...application('x'), 'graph.mjs': writes })),
      /the process ended/,
      text.slice(0, 40),
    )
  }
})

const isRoot = process.getuid?.() === 0

t.test('another user for builds and probes', { skip: !isRoot }, async t => {
  const user = findHostUser('nobody')!
  t.throws(() => findHostUser('no-such-user'), /no user no-such-user/)
  t.throws(() => findHostUser('a b'), /expected a user or uid:gid/)
  t.match(findHostUser('12:34'), { uid: 12, gid: 34 })
  const place = folder(t, { 'ours/key': 'hush', 'work/tree/langgraph.json': '{}', 'work/tmp/x': '' })
  chmodSync(place, 0o711)
  chmodSync(join(place, 'ours/key'), 0o600)
  const tree = join(place, 'work/tree')
  await t.rejects(give(user, tree), /work must be closed to others/)
  chmodSync(join(place, 'work'), 0o700)
  await give(user, tree)
  chmodSync(join(place, 'work'), 0o711)
  const env = { PATH: process.env.PATH }
  const limit = { folders: [tree], bytes: 1024 ** 3 }
  const none = { install_command: null, build_command: null, python: null }
  const building = { tree, folder: tree, env, ...none, redactor, limit, user }
  const install_command = `id -u > user && mkdir -m 700 own && ln -s ${place}/ours/key own/link && cat ${place}/ours/key`
  await t.rejects(runInstall({ ...building, install_command }, never, quiet), /cat: .*Permission denied/)
  t.equal(readFileSync(join(tree, 'user'), 'utf8').trim(), `${user.uid}`)
  const app = folder(t, {
    ...application('x'),
    'graph.mjs': `import { readFileSync, realpathSync } from 'node:fs'\nreadFileSync(${JSON.stringify(join(place, 'ours/key'))})\n`,
  })
  chmodSync(app, 0o755)
  const probing = { app: join(app, 'langgraph.json'), env: { PATH: process.env.PATH ?? '' } }
  const program = javascriptProbe(PUBLIC_NODE, 256)
  await t.rejects(
    probe({ ...probing, program, redactor, user, sandbox: null, mark: `${mark}2` }, never, quiet),
    /permission denied.*ours\/key/,
  )

  const artefacts = await openArtefacts(join(place, 'artefacts'), user)
  const key = 'b'.repeat(64)
  await artefacts.keep(key, tree, 'langgraph.json')
  const kept = (await artefacts.find(key))!.tree
  t.equal(statSync(join(kept, 'own')).uid, 0, 'the artefact is ours')
  t.equal(statSync(join(kept, 'own')).mode & 0o777, 0o555, 'and the user can read it')
  t.equal(statSync(join(place, 'ours/key')).mode & 0o777, 0o600, 'links are not followed')
})

t.test('artefacts', async t => {
  const store = folder(t)
  const inputs = {
    deployment_id: 'd',
    content: 'c',
    repo: 'r',
    config: 'langgraph.json',
    install_command: null,
    build_command: null,
    runtime: 'x',
  }
  const key = keyOf(inputs)
  t.not(keyOf({ ...inputs, deployment_id: 'other' }), key, 'no deployment executes what another one has built')
  t.match(key, /^[0-9a-f]{64}$/)
  const files = { 'langgraph.json': '{}', 'bin/run': '#!/bin/sh\n', 'deep/er/file': 'text' }
  const artefacts = await openArtefacts(store)
  t.equal(await artefacts.find(key), null)
  const make = () => {
    const tree = join(folder(t), 'tree')
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(tree, path)), { recursive: true })
      writeFileSync(join(tree, path), text)
    }
    chmodSync(join(tree, 'bin/run'), 0o755)
    symlinkSync('../deep', join(tree, 'bin/link'))
    return tree
  }
  const keep = () => artefacts.keep(key, make(), 'langgraph.json')
  await Promise.all([keep(), keep()])
  const found = (await artefacts.find(key))!
  t.equal(readFileSync(join(found.tree, 'bin/link/er/file'), 'utf8'), 'text')
  t.equal(statSync(join(found.tree, 'deep/er/file')).mode & 0o222, 0, 'read-only')
  t.equal(statSync(join(found.tree, 'deep')).mode & 0o222, 0)
  t.equal(statSync(join(found.tree, 'bin/run')).mode & 0o777, 0o555, 'the executable bit stays')

  await t.test('a tree without its note or with changed files is rejected', async t => {
    const note = join(store, key, 'artefact.json')
    const text = readFileSync(note)
    rmSync(note)
    t.equal(await (await openArtefacts(store)).find(key), null)
    writeFileSync(note, text)
    t.ok(await (await openArtefacts(store)).find(key))
    chmodSync(join(found.tree, 'langgraph.json'), 0o644)
    writeFileSync(join(found.tree, 'langgraph.json'), '{"x":1}')
    t.equal(await (await openArtefacts(store)).find(key), null)
    const again = await openArtefacts(store)
    await again.keep(key, make(), 'langgraph.json')
    t.equal(readFileSync(join((await again.find(key))!.tree, 'langgraph.json'), 'utf8'), '{}', 'and is rebuilt')
  })
  await t.test('unused artefacts are removed', async t => {
    const other = 'f'.repeat(64)
    await artefacts.keep(other, make(), 'langgraph.json')
    t.same(await artefacts.collect(new Set([key]), 60_000), [], 'but not young ones')
    t.same(await artefacts.collect(new Set([key]), -1), [other])
    t.equal(await artefacts.find(other), null)
    t.ok(await artefacts.find(key))
  })
  await t.test('records outlive the process', async t => {
    const place = folder(t)
    const id = '0198f2a5-0000-7000-8000-000000000000'
    const records = await openRecords(place)
    for (const n of [1, 2, 3, 4, 5, 6]) {
      await records.add(id, { revision_id: `r${n}`, pool: `p${n}`, artefact: `a${n}` })
      if (n < 6) await records.markRetired(id, `r${n}`)
    }
    const later = await openRecords(place)
    t.same([...(await later.listArtefacts())], ['a3', 'a4', 'a5', 'a6'])
    t.same(await later.listUnretired(), [{ deployment_id: id, revision_id: 'r6', pool: 'p6', artefact: 'a6' }])
    await later.forget(id)
    t.same([...(await (await openRecords(place)).listArtefacts())], [])
  })
})

t.test('a limit of concurrent work', async t => {
  const limit = openLimit(2)
  const log: string[] = []
  const ends = new Map<string, () => void>()
  const stops = new Map<string, AbortController>()
  const begin = (name: string) => {
    const stop = new AbortController()
    stops.set(name, stop)
    const work = () =>
      new Promise<void>(resolve => {
        log.push(name)
        ends.set(name, resolve)
      })
    return limit(work, stop.signal)
  }
  const turns = async () => {
    for (let i = 0; i < 50; i++) await null
  }
  const all = ['a', 'b', 'c', 'd', 'e'].map(name => begin(name))
  await turns()
  t.same(log, ['a', 'b'])
  stops.get('c')!.abort()
  await t.rejects(all[2]!, { name: 'Stopped' })
  t.same(log, ['a', 'b'], 'stopped work takes no place')
  ends.get('b')!()
  await turns()
  t.same(log, ['a', 'b', 'd'])
  ends.get('a')!()
  ends.get('d')!()
  await turns()
  t.same(log, ['a', 'b', 'd', 'e'])
  ends.get('e')!()
  await Promise.allSettled(all)
})

t.test('sizes', async t => {
  t.match(sizeOf(null, { host_memory_mb: 512 }), { replicas: 1, hosts: 1, memory_mb: 512 })
  t.match(sizeOf({ min_scale: 3, memory_mb: 300 }, { host_memory_mb: 512 }), { replicas: 3, memory_mb: 600 })
  t.match(sizeOf({ min_scale: 3, queue_min_scale: 2, queue_memory_limit_mb: 100 }, { host_memory_mb: 512 }), {
    replicas: 2,
    memory_mb: 100,
  })
  t.same(problemsOf({ volumes: [], sidecars: null }), [])
  t.match(problemsOf({ sidecars: [{ name: 'a', image: 'b' }] }), [/resource_spec.sidecars needs containers/])
})

t.test('one deploy worker per folder', async t => {
  for (const name of ['short', 'long-'.repeat(30)]) {
    const path = join(folder(t), name)
    mkdirSync(path)
    const before = readdirSync(tmpdir()).filter(name => name.endsWith('.sock'))
    const release = await ownFolder(path)
    t.same(readdirSync(path), ['owner.sock'], 'the lock is in the folder')
    t.same(
      readdirSync(tmpdir()).filter(name => name.endsWith('.sock')),
      before,
      'and not in a folder of all users',
    )
    await t.rejects(ownFolder(path), /in use by another deploy worker/)
    await release()
    const again = await ownFolder(path)
    await again()
  }
})
