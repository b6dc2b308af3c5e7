/** Finds or makes the Python of an application (workers/child/python.ts). */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { aside, findHostUser, type HostUser } from '../../workers/child/process.js'
import { findPython } from '../../workers/child/python.js'
import { pruneEnvironments } from '../../workers/child/python-cache.js'
import { stepsFor } from '../../workers/child/python-install.js'
import { makeWheel, wheelEnv } from '../helpers/wheels.js'

t.setTimeout(300_000)
const skip = withoutPython() ?? false
const requirements = join(root, 'test/host-python/requirements.txt')
const folder = mkdtempSync(join(tmpdir(), 'weft-python-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

let apps = 0
function application(given: { [key: string]: unknown } = {}, files: { [name: string]: string } = {}) {
  const at = join(folder, `app${++apps}`)
  mkdirSync(at)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text)
  return { path: join(at, 'langgraph.json'), folder: at, given }
}

function find(
  description: ReturnType<typeof application>,
  options: { given?: string; fetchesUv?: boolean; env?: NodeJS.ProcessEnv; user?: HostUser } = {},
) {
  const lines: string[] = []
  const { VIRTUAL_ENV: _, ...env } = process.env
  const found = findPython({
    description,
    given: options.given ?? '',
    fetchesUv: options.fetchesUv ?? false,
    env: { ...env, XDG_CACHE_HOME: join(folder, 'cache'), ...options.env },
    user: options.user ?? null,
    log: line => lines.push(line),
  })
  return { found, lines }
}

t.test('the setting, then .venv beside the application, above it in the repository, or active', { skip }, async t => {
  const python = await venvOf(requirements)
  const environment = join(python, '../..')
  const given = find(application({ python_version: '3.99' }), { given: python })
  t.match(await given.found, { file: python, python: /^3\.\d+/, library: /^\d+\./ })
  t.match(given.lines, [/asks for Python 3\.99/])

  const beside = application()
  symlinkSync(environment, join(beside.folder, '.venv'))
  t.match(await find(beside).found, { file: join(beside.folder, '.venv/bin/python') })

  const repository = application()
  mkdirSync(join(repository.folder, '.git'))
  symlinkSync(environment, join(repository.folder, 'venv'))
  mkdirSync(join(repository.folder, 'packages/agent'), { recursive: true })
  const inside = { ...repository, folder: join(repository.folder, 'packages/agent') }
  t.match(await find(inside).found, { file: join(repository.folder, 'venv/bin/python') })

  const active = application()
  symlinkSync(environment, join(active.folder, 'env'))
  const env = { VIRTUAL_ENV: join(active.folder, 'env') }
  t.match(await find(active, { env }).found, { file: join(active.folder, 'env/bin/python') })
})

t.test('one sentence when there is no Python, an old one, or one without langgraph', { skip }, async t => {
  await t.rejects(
    find(application(), { given: '/nowhere/python' }).found,
    /^\/nowhere\/python is no Python that starts/,
  )
  await t.rejects(find(application({ python_version: '3.4' })).found, /need Python 3\.4, which is not on PATH/)
  const fake = (name: string, answer: object) => {
    const file = join(folder, name)
    writeFileSync(file, `#!/bin/sh\necho '${JSON.stringify(answer)}'\n`)
    chmodSync(file, 0o755)
    return file
  }
  const bare = fake('bare', { python: '3.12.1', library: null })
  await t.rejects(find(application(), { given: bare }).found, /has no langgraph: install it there/)
  const old = fake('old', { python: '3.9.2', library: '1.0.0' })
  await t.rejects(find(application(), { given: old }).found, /is Python 3\.9\.2; Weft runs graphs with Python 3\.11/)
  const early = fake('early', { python: '3.12.1', library: '0.5.4' })
  await t.rejects(find(application(), { given: early }).found, /has langgraph 0\.5\.4; Weft runs langgraph 0\.6/)
})

t.test('what langgraph.json says is no option of an installer', { skip }, async t => {
  const app = application()
  const needs = {
    folder: app.folder,
    given: { dependencies: ['--index-url=http://127.0.0.1:1/', 'a', '-r/etc/hosts'] },
  }
  for (const uv of [null, { file: 'uv', env: {} }]) {
    const options = { base: { file: 'python3', python: '3.12.1' }, target: '/t', editable: true, uv }
    const { words } = stepsFor(needs, options).at(-1)!
    t.same(words.slice(words.indexOf('--')), ['--', ...needs.given.dependencies, 'langgraph'])
  }
})

t.test('uv runs in the folder of the application, where it finds its settings', { skip }, async t => {
  const app = application({ dependencies: ['.'] }, { 'requirements.txt': 'langgraph\n' })
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'uv'), '#!/bin/sh\n[ "$1" = --version ] && exec echo uv 0.9.0\necho "in $(pwd)"\nexit 1\n', {
    mode: 0o755,
  })
  await t.rejects(
    find(app, { env: { PATH: `${bin}:${process.env.PATH}` } }).found,
    new RegExp(`failed: in ${app.folder}$`),
  )
})

t.test('an environment is made once, and made again when its inputs change', { skip }, async t => {
  const wheels = join(folder, 'wheels')
  mkdirSync(wheels)
  for (const version of ['1.0.0', '1.1.0']) makeWheel(wheels, 'langgraph', version)
  const env = wheelEnv(wheels)
  const app = application({ dependencies: ['.'] }, { 'requirements.txt': 'langgraph==1.0.0\n' })
  const both = [find(app, { env }), find(app, { env })]
  const [first, second] = await Promise.all(both.map(({ found }) => found))
  t.same(first, second, 'two starts at once')
  t.match(first, { library: '1.0.0' })
  t.ok(both[0]!.lines.length > 1, 'progress is shown')
  const again = find(app, { env })
  t.same(await again.found, first)
  t.same(again.lines, [], 'kept')
  writeFileSync(join(app.folder, 'requirements.txt'), 'langgraph==1.1.0\n')
  t.match(await find(app, { env }).found, { library: '1.1.0' })
  const environments = () => readdirSync(join(folder, 'cache/weft/python')).length
  t.equal(environments(), 2, 'nothing else is left behind')
  writeFileSync(join(app.folder, 'requirements.txt'), 'no-such-package-of-weft==1.0\n')
  await t.rejects(find(app, { env }).found, /pip install.* failed: /)
  t.equal(environments(), 2, 'nor by a failure')
})

t.test('with uv on PATH, uv.lock decides the versions', { skip }, async t => {
  const wheels = join(folder, 'locked')
  mkdirSync(wheels)
  const python = await venvOf(requirements)
  const env = { ...process.env, ...wheelEnv(wheels), PATH: `${dirname(python)}:${process.env.PATH}` }
  const project =
    '[project]\nname = "mine"\nversion = "0.1.0"\nrequires-python = ">=3.11"\ndependencies = ["langgraph"]\n'
  const app = application({ dependencies: ['.'] }, { 'pyproject.toml': project })
  makeWheel(wheels, 'langgraph', '1.0.0')
  execFileSync('uv', ['lock', '--quiet', '--python', python], { cwd: app.folder, env, stdio: 'pipe' })
  makeWheel(wheels, 'langgraph', '1.1.0')
  const { found, lines } = find(app, { env })
  t.match(await found, { library: '1.0.0' }, 'the one of the lock')
  t.match(lines.join('\n'), /langgraph==1\.0\.0/)
  const other = application({ dependencies: ['langgraph'] })
  t.match(await find(other, { env }).found, { library: '1.1.0' }, 'the newest one without a lock')
})

t.test('a package of setuptools is installed without writing to its folder', { skip }, async t => {
  const wheels = join(folder, 'setuptools')
  mkdirSync(wheels)
  makeWheel(wheels, 'langgraph', '1.0.0')
  const python = await venvOf(requirements)
  execFileSync('python3', ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', wheels, 'setuptools'])
  const system = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
  const project = `[project]\nname = "mine"\nversion = "0.1.0"\ndependencies = ["langgraph"]\n${system}`
  const app = application({ dependencies: ['.'] }, { 'pyproject.toml': project })
  mkdirSync(join(app.folder, 'src/mine'), { recursive: true })
  writeFileSync(join(app.folder, 'src/mine/words.py'), 'WORD = "hello"\n')
  const { file } = await find(app, {
    env: { ...wheelEnv(wheels), PATH: `${dirname(python)}:${process.env.PATH}` },
  }).found
  const print = 'import mine.words as words; print(words.WORD, words.__file__)'
  const said = execFileSync(file, ['-B', '-c', print], { cwd: '/', encoding: 'utf8' })
  t.equal(said, `hello ${app.folder}/src/mine/words.py\n`, 'editable')
  t.same(readdirSync(app.folder, { recursive: true }).sort(), [
    'pyproject.toml',
    'src',
    'src/mine',
    'src/mine/words.py',
  ])
})

t.test('the cache keeps the environments that were used last, and those that are in use', { skip }, async t => {
  const cache = join(folder, 'tidied')
  const python = await venvOf(requirements)
  const hours = 3_600
  const now = Date.now() / 1_000
  const add = (name: string, age: number) => {
    mkdirSync(join(cache, name, 'bin'), { recursive: true })
    symlinkSync(python, join(cache, name, 'bin/python'))
    utimesSync(join(cache, name), now - age, now - age)
    return join(cache, name)
  }
  const [, used, oldest] = [add('first', 2 * hours), add('used', 3 * hours), add('oldest', 5 * hours)]
  const [fresh, left] = [add('fresh', 60), add('third.0d5c', 2 * hours)]
  const making = add('fourth.1f3a', 60)
  const process = spawn(join(used, 'bin/python'), ['-c', 'print(1, flush=True); input()'], { stdio: 'pipe' })
  t.teardown(() => process.kill())
  await once(process.stdout, 'data')
  const removed = await pruneEnvironments(cache, { keep: join(cache, 'first'), kept: 1 })
  t.same(removed.sort(), [oldest, left].sort())
  t.same(
    [used, fresh, making, oldest, left].map(each => existsSync(each)),
    [true, true, true, false, false],
  )
})

/** Builds an empty package, and says who has executed it. */
const BACKEND = `
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.environ["BUILDERS"], "a") as log:
        log.write(f"{os.getuid()} {os.environ.get('WEFT_SECRET')}\\n")
    name = "mine-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        info = "mine-0.1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 0.1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name

build_editable = build_wheel
`
const PROJECT =
  '[project]\nname = "mine"\nversion = "0.1.0"\n[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'

const isRoot = process.getuid?.() === 0
const publicPython = isRoot
  ? spawnSync('sh', ['-c', 'command -v python3'], { ...aside(findHostUser('nobody')!), encoding: 'utf8' }).stdout.trim()
  : ''
const skipUser = skip || (publicPython === '' ? 'needs root and a Python for all users' : false)

t.test('code of an application is executed by the user who can change it', { skip: skipUser }, async t => {
  const user = findHostUser('nobody')!
  const place = mkdtempSync(join(tmpdir(), 'weft-python-user-'))
  t.teardown(() => rmSync(place, { recursive: true, force: true }))
  chmodSync(place, 0o755)
  const { PATH } = process.env
  process.env.PATH = dirname(publicPython)
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const builders = join(place, 'builders')
  const wheels = join(place, 'wheels')
  mkdirSync(wheels)
  makeWheel(wheels, 'langgraph', '1.0.0')
  const made = async (name: string, owner: number) => {
    const folder = join(place, name)
    mkdirSync(folder)
    for (const [file, text] of Object.entries({ 'pyproject.toml': PROJECT, 'backend.py': BACKEND }))
      writeFileSync(join(folder, file), text)
    for (const path of [folder, join(folder, 'pyproject.toml'), join(folder, 'backend.py')])
      chownSync(path, owner, owner)
    writeFileSync(builders, '')
    chmodSync(builders, 0o666)
    const description = { path: join(folder, 'langgraph.json'), folder, given: { dependencies: ['.'] } }
    const own = {
      PATH: process.env.PATH,
      XDG_CACHE_HOME: join(place, 'cache'),
      BUILDERS: builders,
      WEFT_SECRET: 'hush',
    }
    const { found } = find(description, { env: { ...wheelEnv(wheels), ...own }, user })
    const { file, library } = await found
    t.equal(library, '1.0.0')
    const environment = join(file, '../..')
    t.equal(lstatSync(environment).uid, 0, 'the environment is of root')
    t.equal(lstatSync(environment).mode & 0o022, 0)
    return [...new Set(readFileSync(builders, 'utf8').trim().split('\n'))]
  }
  t.same(await made('theirs', user.uid), [`${user.uid} None`])
  t.same(await made('ours', 0), ['0 None'], 'nobody else can change it')
  t.equal(readdirSync(join(place, 'cache/weft/python')).length, 2, 'nothing else is left behind')
})

t.test('a Python beside the application is executed by the user of hosts', { skip: skipUser }, async t => {
  const user = findHostUser('nobody')!
  const place = mkdtempSync(join(tmpdir(), 'weft-python-user-'))
  t.teardown(() => rmSync(place, { recursive: true, force: true }))
  chmodSync(place, 0o777)
  const answer = JSON.stringify({ python: '3.12.1', library: '1.0.0' })
  mkdirSync(join(place, '.venv/bin'), { recursive: true })
  const file = join(place, '.venv/bin/python')
  writeFileSync(file, `#!/bin/sh\nid -u >> ${place}/users\necho '${answer}'\n`, { mode: 0o755 })
  const { found } = find({ path: join(place, 'langgraph.json'), folder: place, given: {} }, { user })
  t.match(await found, { file, library: '1.0.0' })
  t.same([...new Set(readFileSync(join(place, 'users'), 'utf8').trim().split('\n'))], [`${user.uid}`])
})
