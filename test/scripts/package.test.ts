import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../cli/root.js'

const run = promisify(execFile)

t.setTimeout(120_000)

t.test('the npm package contains the command and the guide, and no tests, bench or checks', async t => {
  await run(process.execPath, [join(root, 'dist/scripts/guide/build.js')])
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json'], { cwd: root, maxBuffer: 16 * 1024 * 1024 })
  const [{ files, unpackedSize }] = JSON.parse(stdout) as [{ files: { path: string }[]; unpackedSize: number }]
  const paths = files.map(({ path }) => path)
  for (const wanted of [
    'dist/cli/weft.js',
    'dist/programs/weft.js',
    'dist/programs/host.js',
    'dist/programs/LICENSES.txt',
    'dist/programs/handler.js',
    'dist/handler/handler.d.ts',
    'handler/python/weft_asgi/app.py',
    'dist/guide/index.html',
    'dist/guide/llms.txt',
    'examples/chat/langgraph.json',
    'README.md',
  ])
    t.ok(paths.includes(wanted), wanted)
  t.ok(unpackedSize < 25_000_000, `${unpackedSize} bytes`)
  t.same(
    paths.filter(path => /\.map$|\.built-from$/.test(path)),
    [],
    'neither maps, nor marks of the folder of the build',
  )
  t.same(
    paths.filter(path =>
      /^dist\/(?!programs\/|console\/|guide\/|edge\/openapi\/viewer\/|handler\/(handler|types)\.d\.ts$|cli\/(weft|check-node)\.js$)/.test(
        path,
      ),
    ),
    [],
    'what is bundled is there once',
  )
  t.same(
    paths.filter(path => /^(test|dist\/test|dist\/scripts\/(bench|checks|guide|mongo)|scripts)\//.test(path)),
    [],
  )
})

t.test('the licences of the libraries whose code is in the bundles are beside them', t => {
  const text = readFileSync(join(root, 'dist/programs/LICENSES.txt'), 'utf8')
  for (const name of ['mongodb', 'nats', 'pino', 'prom-client'])
    t.match(text, new RegExp(`^${name} \\d+\\.[^\\n]*\\n\\n[^\\n]*(Licen[cs]e|Copyright)`, 'im'))
  t.end()
})

t.test('an unsupported Node.js gets one sentence and exit code 2 before anything native is loaded', async t => {
  const weft = join(root, 'dist/cli/weft.js')
  const as = (version: string, ...args: string[]) => {
    const versions = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
    const hook = `data:text/javascript,${encodeURIComponent(versions)}`
    return run(process.execPath, ['--import', hook, weft, ...args]).catch(
      (error: Error & { code: number; stdout: string; stderr: string }) => error,
    )
  }
  for (const version of ['23.0.0', '21.7.0', '20.18.1', '18.20.0'])
    t.match(await as(version, 'edge'), {
      code: 2,
      stdout: '',
      stderr: new RegExp(`^weft: Weft needs Node\\.js [^\\n]*this is Node\\.js ${version}: install Node\\.js \\d+\\n$`),
    })
  for (const version of ['20.19.0', '22.1.0', '24.0.0', '26.1.0'])
    t.match(await as(version, '--version'), { stderr: '' })
})

t.test('scripts get the pinned Node.js once, renew it, and keep an earlier one when they cannot', t => {
  const folder = t.testdir({ bin: {} })
  // In place of npm, which would ask a registry: it "installs" what the lock file names.
  writeFileSync(
    join(folder, 'bin/npm'),
    `#!/bin/sh
[ -z "$FAILS" ] || exit 1
name=$(sed 's/.*"node_modules\\/\\([^"]*\\)".*/\\1/' "$3/package-lock.json")
mkdir -p "$3/node_modules/$name/bin"
echo "echo $name" > "$3/node_modules/$name/bin/node"
chmod +x "$3/node_modules/$name/bin/node"
echo asked >> ${folder}/asked\n`,
    { mode: 0o755 },
  )
  const sh = (text: string, env: { [name: string]: string } = {}) =>
    spawnSync('bash', ['-c', `source "$0"; ${text}`, join(root, 'scripts/prepare.sh')], {
      encoding: 'utf8',
      env: { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: folder, ...env },
    })
  const get = (env = {}) => sh(`get_node 24 ${folder}/node`, env)
  const asked = () => readFileSync(join(folder, 'asked'), 'utf8').split('\n').length - 1
  t.not(get({ FAILS: '1' }).status, 0)
  t.match(get(), { status: 0, stderr: /^weft: downloading Node\.js 2[46]\./ })
  t.match(get(), { status: 0, stderr: '' }, 'it is there')
  t.equal(asked(), 1)
  const name = execFileSync(join(folder, 'node/bin/node'), { encoding: 'utf8', shell: true }).trim()
  writeFileSync(join(folder, 'node/package.json'), `{"dependencies":{"${name}":"24.0.0"}}`)
  t.match(get({ FAILS: '1' }), { status: 0, stderr: /downloading/ }, 'an older one is better than none')
  t.match(get(), { status: 0, stderr: /downloading/ })
  t.equal(asked(), 2)
  t.same(readdirSync(folder).sort(), ['asked', 'bin', 'node'], 'nothing else is left')
  t.end()
})
