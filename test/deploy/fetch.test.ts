import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openRedactor } from '../../schemas/redact.js'
import { fetchSource } from '../../workers/deploy/process/fetch.js'
import { checkRef, type Remote, readSource, resolveAddress } from '../../workers/deploy/process/source.js'
import { parseAllowed } from '../../workers/outbound.js'
import { application, makeRepository, sourcesFolder } from './repository.js'

const never = new AbortController().signal
const redactor = openRedactor([])
/** Marks the processes of this file: others that run beside it are not ended with them. */
const mark = `fetch-${process.pid}.`

/** Serves the bare repositories of the folder by git's own program for web servers (CGI). */
function gitBackend(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const [path = '', query = ''] = request.url!.split('?')
  const {
    'content-type': type = '',
    'content-encoding': encoding = '',
    'git-protocol': protocol = '',
  } = request.headers
  const env = {
    PATH: process.env.PATH,
    GIT_PROJECT_ROOT: folder,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: path,
    QUERY_STRING: query,
    REQUEST_METHOD: request.method,
    CONTENT_TYPE: type,
    HTTP_CONTENT_ENCODING: encoding,
    GIT_PROTOCOL: `${protocol}`,
    REMOTE_USER: 'test',
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
  }
  const child = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  request.pipe(child.stdin)
  let head = ''
  child.stdout.on('data', (bytes: Buffer) => {
    if (response.headersSent) return void response.write(bytes)
    head += bytes.toString('latin1')
    const end = head.indexOf('\r\n\r\n')
    if (end === -1) return
    const headers = Object.fromEntries(
      head
        .slice(0, end)
        .split('\r\n')
        .map(line => line.split(': ') as [string, string]),
    )
    response.writeHead(Number.parseInt(headers.Status ?? '200', 10), headers)
    response.write(Buffer.from(head.slice(end + 4), 'latin1'))
  })
  child.stdout.on('end', () => response.end())
}

t.setTimeout(120_000)

t.test('fetching', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const repository = makeRepository(folder, 'app', application('one'))
  const first = repository.git('rev-parse', 'HEAD')
  repository.git('tag', 'v1')
  repository.git('branch', 'v1')
  const second = repository.commit({ 'new.txt': 'new' })
  const sources = { local: [folder], allowed: parseAllowed('') }
  const said: string[] = []
  const get = (more: { url?: string; ref?: string; commit?: string | null }) => {
    const work = mkdtempSync(join(tmpdir(), 'weft-fetch-'))
    t.teardown(() => rmSync(work, { recursive: true, force: true }))
    const given = { url: repository.url, ref: 'main', commit: null, path: process.env.PATH ?? '', ...more }
    return fetchSource({ ...given, work, sources, redactor, mark }, never, (_, text) => said.push(text))
  }

  await t.test('resolves refs', async t => {
    t.equal((await get({})).commit, second, 'a branch')
    t.equal((await get({ ref: 'refs/tags/v1' })).commit, first, 'a tag')
    t.equal((await get({ ref: 'refs/heads/main' })).commit, second)
    t.equal((await get({ ref: first })).commit, first, 'a commit that no ref points to')
    t.equal((await get({ ref: first.toUpperCase() })).commit, first)
    repository.git('branch', '-D', 'v1')
    t.equal((await get({ ref: 'v1' })).commit, first, 'a tag by its bare name, when no branch has it')
    t.equal((await get({ ref: 'v1', commit: second })).commit, second, 'the commit of an earlier attempt has priority')
    repository.git('checkout', '-q', '-b', 'branch/with/slashes')
    t.equal((await get({ ref: 'branch/with/slashes' })).commit, second)
    repository.git('checkout', '-q', 'main')
    repository.git('tag', '-a', '-m', 'annotated', 'v2')
    t.equal((await get({ ref: 'refs/tags/v2' })).commit, second, 'an annotated tag')
  })

  await t.test('copies the committed files without .git', async t => {
    writeFileSync(join(repository.folder, 'not-committed'), '')
    const { tree } = await get({})
    t.equal(readFileSync(join(tree, 'new.txt'), 'utf8'), 'new')
    t.notOk(existsSync(join(tree, 'not-committed')))
    t.notOk(existsSync(join(tree, '.git')))
  })

  await t.test('names a missing ref or commit', async t => {
    await t.rejects(get({ ref: 'nope' }), { message: /no branch, tag or commit "nope"/, retryable: false })
    await t.rejects(get({ ref: '0123456789012345678901234567890123456789' }), {
      message: /no commit/,
      retryable: false,
    })
    const empty = join(folder, 'gone')
    await t.rejects(get({ url: `file://${empty}` }), /below WEFT_LOCAL_SOURCES/)
  })

  await t.test('runs no program of the repository', async t => {
    const trap = makeRepository(folder, 'trap', application('trap'))
    const marker = join(folder, 'ran')
    writeFileSync(join(trap.folder, '.git/hooks/post-checkout'), `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 })
    trap.commit({
      '.gitattributes': '*.json filter=evil\n',
      '.gitmodules': `[submodule "s"]\n\tpath = s\n\turl = ext::sh -c touch% ${marker}\n`,
    })
    trap.git('config', 'filter.evil.smudge', `touch ${marker}; cat`)
    trap.git('config', 'uploadpack.packObjectsHook', `touch ${marker}; exec "$@"`)
    await get({ url: trap.url })
    t.notOk(existsSync(marker))
  })

  await t.test('a bare repository and a folder without git', async t => {
    repository.git('clone', '-q', '--bare', '.', '../bare.git')
    t.equal((await get({ url: join(folder, 'bare.git') })).commit, second)
    const plain = join(folder, 'plain')
    mkdirSync(plain)
    writeFileSync(join(plain, 'a'), '1')
    const copied = await get({ url: plain })
    t.equal(copied.commit, null)
    t.match(copied.content, /^[0-9a-f]{64}$/)
    t.equal((await get({ url: plain })).content, copied.content)
    writeFileSync(join(plain, 'a'), '2')
    t.not((await get({ url: plain })).content, copied.content)
  })

  await t.test('http works for a host in WEFT_ALLOW_HOSTS', async t => {
    repository.git('update-server-info')
    const asked: string[] = []
    const server = createServer((request, response) => {
      asked.push(`${request.url}`)
      response.writeHead(404).end()
    })
    await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const opened = { local: [], allowed: parseAllowed(`127.0.0.1:${port}`) }
    const work = mkdtempSync(join(tmpdir(), 'weft-fetch-'))
    t.teardown(() => rmSync(work, { recursive: true, force: true }))
    const url = `http://127.0.0.1:${port}/app.git`
    const given = { url, ref: 'main', commit: null, path: process.env.PATH ?? '', work, redactor, mark }
    await t.rejects(
      fetchSource({ ...given, sources: opened }, never, () => {}),
      { message: /not found/, retryable: false },
    )
    t.match(asked[0], /^\/app\.git\/info\/refs\?service=git-upload-pack$/, 'the server received the request')
    const count = asked.length
    await t.rejects(get({ url }), /is not fetched from/)
    t.equal(asked.length, count, 'and not for other hosts')
  })
})

t.test('private repositories', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const repository = makeRepository(folder, 'app', application('one'))
  const commit = repository.git('rev-parse', 'HEAD')
  repository.git('clone', '-q', '--bare', '.', join(folder, 'private.git'))
  const TOKEN = 'ghp_secret0token0of0the0tests00'
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'ignore' })
  const san = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  openssl(
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    'key.pem',
    '-out',
    'cert.pem',
    '-days',
    '2',
    ...san,
  )
  const read = (name: string) => readFileSync(join(folder, name))
  const wanted = `Basic ${Buffer.from(`x-access-token:${TOKEN}`).toString('base64')}`
  const urls: string[] = []
  const server = createSecureServer({ key: read('key.pem'), cert: read('cert.pem') }, (request, response) => {
    urls.push(request.url!)
    if (request.headers.authorization !== wanted)
      return void response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="git"' }).end()
    gitBackend(folder, request, response)
  })
  await new Promise<void>(done => server.listen(0, 'localhost', done))
  t.teardown(() => server.close())
  const host = `localhost:${(server.address() as AddressInfo).port}`
  const url = `https://${host}/private.git`
  const said: string[] = []
  const works: string[] = []
  const get = (more: Partial<Parameters<typeof fetchSource>[0]>) => {
    const work = mkdtempSync(join(tmpdir(), 'weft-fetch-'))
    works.push(work)
    t.teardown(() => rmSync(work, { recursive: true, force: true }))
    const sources = { local: [], allowed: parseAllowed(`${host},git.example`) }
    const certificates = join(folder, 'cert.pem')
    const given = { url, ref: 'main', commit: null, path: process.env.PATH ?? '', sources, certificates, ...more }
    return fetchSource({ ...given, work, redactor, mark }, never, (_, text) => said.push(text))
  }
  const files = { git_credentials_file: '', git_ssh_key_file: '' }
  const withToken = (WEFT_GIT_TOKEN: string) => get({ access: { secrets: { WEFT_GIT_TOKEN }, files } })

  await t.test('https with the token of the deployment', async t => {
    t.equal((await withToken(TOKEN)).commit, commit)
    t.ok(urls.length > 0 && urls.every(url => !url.includes(TOKEN)))
    const refused = { message: /WEFT_GIT_TOKEN .*gives access/, retryable: false }
    await t.rejects(get({}), refused, 'without one')
    await t.rejects(withToken('wrong'), refused, 'with another one')
    await t.rejects(
      get({ certificates: undefined, access: { secrets: { WEFT_GIT_TOKEN: TOKEN }, files } }),
      /certificate/,
    )
  })

  await t.test('https with the credentials of the operator', async t => {
    const file = join(folder, 'credentials')
    const from = (...lines: string[]) => {
      writeFileSync(file, lines.join('\n'))
      return get({ access: { secrets: {}, files: { ...files, git_credentials_file: file } } })
    }
    const right = `https://x-access-token:${TOKEN}@${host}`
    t.equal((await from('# GitHub', right)).commit, commit)
    t.equal((await from(`${right}/private`, `https://a:wrong@${host}`)).commit, commit, 'the longest path')
    for (const line of [`${right}/privat`, `${right}/private/more`, right.replace(host, 'localhost:1'), 'nonsense'])
      await t.rejects(from(line), /gives access/, line.replace(TOKEN, '…'))
    await t.rejects(
      get({ access: { secrets: {}, files: { ...files, git_credentials_file: folder } } }),
      /CREDENTIALS_FILE/,
    )
  })

  await t.test('ssh with the key of the deployment, or of the operator', async t => {
    const bin = join(folder, 'bin')
    mkdirSync(bin)
    const seen = join(folder, 'seen')
    // In place of ssh: reports the key that it was given, and serves the repository itself.
    const ssh = `#!/bin/sh
echo "$@" > ${seen}
while [ "$1" != -i ]; do shift; done
stat -c %a "$2" >> ${seen}; cat "$2" >> ${seen}
exec git-upload-pack ${folder}/private.git
`
    writeFileSync(join(bin, 'ssh'), ssh, { mode: 0o755 })
    const path = `${bin}:${process.env.PATH}`
    const from = { url: 'ssh://git@git.example/private.git', path }
    const key = '-----BEGIN OPENSSH PRIVATE KEY-----\r\nabc\r\n-----END OPENSSH PRIVATE KEY-----'
    t.equal((await get({ ...from, access: { secrets: { WEFT_GIT_SSH_KEY: key }, files } })).commit, commit)
    t.match(
      readFileSync(seen, 'utf8'),
      /-oIdentitiesOnly=yes -i \S+ [\s\S]*\n600\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n.*-----\n$/,
    )
    t.notOk(existsSync(join(works.at(-1)!, 'ssh-key')), 'its file is removed')
    const file = join(folder, "operator's key")
    writeFileSync(file, 'of the operator', { mode: 0o600 })
    t.equal(
      (await get({ ...from, access: { secrets: {}, files: { ...files, git_ssh_key_file: file } } })).commit,
      commit,
    )
    t.match(readFileSync(seen, 'utf8'), /of the operator/)
    t.ok(existsSync(file))
  })
  t.notOk(
    said.some(line => line.includes(TOKEN)),
    'no log shows a token',
  )
})

t.test('the address that was checked is the one that is reached', async t => {
  const bin = mkdtempSync(join(tmpdir(), 'weft-bin-'))
  t.teardown(() => rmSync(bin, { recursive: true, force: true }))
  const args = join(bin, 'args')
  const program = (name: string, text: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  program('ssh', `echo "$@" > ${args}\necho 'Host key verification failed.' >&2\nexit 255`)
  const path = `${bin}:${process.env.PATH}`
  const get = async (url: string, allowed: string) => {
    const work = mkdtempSync(join(tmpdir(), 'weft-fetch-'))
    t.teardown(() => rmSync(work, { recursive: true, force: true }))
    const sources = { local: [], allowed: parseAllowed(allowed) }
    const given = { url, ref: 'main', commit: null, path, work, redactor, mark, sources }
    return fetchSource(given, never, () => {})
  }
  await t.test('ssh', async t => {
    const loopback = '127.0.0.0/8,::1'
    await t.rejects(get('ssh://git@localhost/app.git', loopback), /fetch: /)
    const said = readFileSync(args, 'utf8')
    t.match(said, /-F \/dev\/null/, 'no configuration of the user')
    t.match(said, /-oHostName=(127\.0\.0\.1|::1) -oHostKeyAlias=localhost /, 'the address, with the key of the name')
    t.match(said, /-oBatchMode=yes -oStrictHostKeyChecking=yes -oProxyCommand=none/)
    await t.rejects(get('ssh://git@localhost:443/app.git', loopback), /fetch: /)
    t.match(readFileSync(args, 'utf8'), /-oHostKeyAlias=\[localhost\]:443 .*-p 443 /)
    await t.rejects(get('ssh://git@localhost:2222/app.git', loopback), /port 22 or 443 for ssh; WEFT_ALLOW_HOSTS/)
    await t.rejects(get('ssh://git@localhost:2222/app.git', `localhost:2222`), /fetch: /)
    t.notMatch(readFileSync(args, 'utf8'), /HostName/, 'a name that the operator opened is looked up by ssh')
  })
  await t.test('https with a git that cannot pin it', async t => {
    program('git', `case "$1" in --version) echo 'git version 2.30.2';; *) exit 9;; esac`)
    await t.rejects(get('https://localhost.example/app.git', ''), /fetch: localhost.example cannot be resolved/)
    await t.rejects(get('https://127.0.0.1/app.git', '127.0.0.0/8'), /needs git 2.37 or later.*git version 2.30.2/)
  })
})

t.test('refused sources', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const outside = sourcesFolder()
  t.teardown(outside.remove)
  mkdirSync(join(folder, 'in'))
  symlinkSync(outside.folder, join(folder, 'link'))
  const sources = { local: [folder], allowed: parseAllowed('') }
  const refused: [url: string, why: RegExp][] = [
    ['ext::sh -c id', /blanks/],
    ['ext::sh', /git helper/],
    ['fd::17', /git helper/],
    ['--upload-pack=id', /begin with "-"/],
    ['-x', /begin with "-"/],
    ['ssh://-oProxyCommand=id/x', /./],
    ['ssh://git@-oProxyCommand=id/x', /./],
    ['git@-oProxyCommand=id:x', /./],
    ['git://github.com/a/b', /not fetched from/],
    ['ftp://github.com/a/b', /not fetched from/],
    ['http://github.com/a/b', /not fetched from/],
    ['http://127.0.0.1/a', /not fetched from/],
    ['https://127.0.0.1/a', /public address/],
    ['https://[::1]/a', /public address/],
    ['https://10.1.2.3/a', /public address/],
    ['https://169.254.169.254/a', /of a metadata service/],
    ['https://localhost/a', /public address/],
    ['https://user:secret@github.com/a', /without user and password/],
    ['https://github.com:22/a', /port/],
    ...[';', '"', "'", ',', '=', '*', '$(id)'].map(
      text => [`https://a${text}b.test/a`, /host name made of/] as [string, RegExp],
    ),
    ['ssh://git:secret@github.com/a', /password/],
    [`file://${outside.folder}`, /below WEFT_LOCAL_SOURCES/],
    [outside.folder, /below WEFT_LOCAL_SOURCES/],
    [`file://${folder}/link`, /below WEFT_LOCAL_SOURCES/],
    [`file://${folder}/../${outside.folder.split('/').at(-1)}`, /below WEFT_LOCAL_SOURCES/],
    [`file://elsewhere${folder}/in`, /without a host/],
    [`${folder}-more`, /below WEFT_LOCAL_SOURCES/],
    ['relative/path', /expected https/],
    ['', /expected an address/],
  ]
  for (const [url, why] of refused) t.throws(() => readSource(url, sources), why, url)
  t.throws(() => readSource(join(folder, 'in'), { ...sources, local: [] }), /below WEFT_LOCAL_SOURCES/)
  t.match(readSource(`file://${folder}/in`, sources), { kind: 'local', folder: join(folder, 'in') })
  t.throws(() => readSource('ssh://git@10.1.2.3:2222/a', sources), /port 22 or 443/)
  const opened = { ...sources, allowed: parseAllowed('10.0.0.0/8') }
  t.match(readSource('ssh://git@10.1.2.3:2222/a', opened), { kind: 'ssh', host: '10.1.2.3', port: '2222' })
  t.match(readSource('https://10.1.2.3:3000/a', opened), { kind: 'https', port: '3000' })
  t.throws(() => readSource('ssh://git@11.1.2.3:2222/a', opened), /port 22 or 443/)
  t.match(readSource('git@github.com:a/b.git', sources), { kind: 'ssh', host: 'github.com' })
  t.match(readSource('https://a_b.test/a', sources), { kind: 'https', host: 'a_b.test' })
  t.match(readSource('https://github.com/a/b', sources), { kind: 'https', host: 'github.com', port: '443' })
  const inner = readSource('ssh://git@127.0.0.1/a', sources) as Remote
  await t.rejects(resolveAddress(inner, sources), /not public/, 'also over ssh')
  for (const ref of ['-x', '--upload-pack=id', 'a..b', 'a b', 'a:b', 'a^', '', '@{x}', 'a.lock', '/a', 'a\n'])
    t.throws(() => checkRef(ref), /is not a branch/, JSON.stringify(ref))
  for (const ref of ['main', 'refs/tags/v1.0', 'feature/x-1', 'ä']) t.equal(checkRef(ref), ref)
})
