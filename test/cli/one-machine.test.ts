/** The commands for the server of one machine: `weft dev`, `backup`, `restore`, `doctor`. */
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { openSqlite } from '../../store/sqlite.js'
import { spawnWeft } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
// Not below this repository, whose package.json would be found.
const folder = mkdtempSync(join(tmpdir(), 'weft-one-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const data = join(folder, 'data')
const graph = (says: string) => `import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ says: Annotation<string>() }))
  .addNode('a', () => ({ says: '${says}' })).addEdge('__start__', 'a').compile()`
writeFileSync(join(folder, 'langgraph.json'), '{"graphs":{"small":"./small.ts:graph"}}')
writeFileSync(join(folder, 'small.ts'), graph('first'))

const weft = (...args: string[]) => runWeft(args, { MONGODB_URL: '' })

let kept = ''
t.test('weft dev serves changed files and keeps threads; a backup is made meanwhile', async t => {
  const child = spawnWeft(['dev', '--app', folder, '--port', '0', '--data', data], { MONGODB_URL: '' })
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', part => (output += part))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await once(child, 'close')
  })
  const says = async (text: RegExp, after = 0) => {
    await until(async () => text.test(output.slice(after)), 60_000)
    return output.length
  }
  await says(/and its API described at/)
  const [, url = ''] = /^at (http:\/\/\S+) /m.exec(output)!
  const client = new Client({ apiUrl: url })
  kept = (await client.threads.create()).thread_id
  const answer = () => client.runs.wait(kept, 'small', { input: {} })
  t.match(await answer(), { says: 'first' })

  let at = output.length
  writeFileSync(join(folder, 'small.ts'), graph('second'))
  at = await says(/small\.ts has changed[\s\S]*reloaded in \d+ ms/, at)
  t.match(await answer(), { says: 'second' })
  t.equal((await client.runs.list(kept)).length, 2)

  t.match(await weft('backup', join(folder, 'copy'), '--data', data), { code: 0, stderr: /encryption\.key/ })
  t.equal(statSync(join(folder, 'copy/weft.db')).mode & 0o777, 0o600)
  const all = await weft('backup', join(folder, 'whole'), '--data', data, '--keys', '--json')
  t.match(all.json(), { keys: ['encryption.key', 'webhook.secret', 'control.key'] })
  t.match(await weft('backup', join(folder, 'copy'), '--data', data), { code: 2, stderr: /is not empty/ })
  t.match(await weft('restore', join(folder, 'copy'), '--data', data), { code: 2, stderr: /has a store.*--force/ })
  t.match(await weft('restore', join(folder, 'copy'), '--data', data, '--force'), {
    code: 1,
    stderr: /nothing was restored: The data folder .* is in use/,
  })

  writeFileSync(join(folder, 'small.ts'), 'export const graph = (')
  at = await says(/small\.ts:1: .*; the version before goes on serving, waiting for a change/, at)
  t.match(await answer(), { says: 'second' }, 'a file that cannot be parsed replaces nothing')
  writeFileSync(join(folder, 'other.ts'), 'export const one = 1')
  at = await says(/other\.ts has changed[\s\S]*small\.ts:1: .*; the version before goes on serving/, at)
  writeFileSync(join(folder, 'small.ts'), 'export const graph = nothing')
  at = await says(/reloaded in \d+ ms; not loaded: small: .*nothing is not defined/, at)
  t.equal((await fetch(`${url}/ok`)).status, 200, 'a file that fails leaves a server')
  writeFileSync(join(folder, 'small.ts'), graph('third'))
  await says(/reloaded in/, at)
  t.match(await answer(), { says: 'third' })
})

t.test('a backup is restored, beside or over a store', async t => {
  const fresh = join(folder, 'fresh')
  t.match(await weft('restore', join(folder, 'whole'), '--data', fresh), { code: 0, stdout: /^restored into/ })
  t.equal(readFileSync(join(fresh, 'control.key'), 'utf8'), readFileSync(join(data, 'control.key'), 'utf8'))
  const runsIn = async (at: string) => {
    const store = await openSqlite({ folder: at })
    const runs = await store.runs.list({ thread_id: kept, limit: 10, offset: 0 } as never)
    await store.close()
    return runs.length
  }
  t.equal(await runsIn(fresh), 2, 'as it was when the copy was made')
  t.equal(await runsIn(data), 4)
  t.match(await weft('restore', join(folder, 'copy'), '--data', data, '--force'), {
    code: 0,
    stdout: /the store before is in/,
  })
  t.equal(await runsIn(data), 2)
  const [aside = ''] = readdirSync(data).filter(name => name.startsWith('replaced-'))
  t.ok(existsSync(join(data, aside, 'nats')), 'streams of later runs do not stay')
  t.equal(await runsIn(join(data, aside)), 4)

  truncateSync(join(folder, 'copy/weft.db'), 40_000)
  const damaged = await weft('restore', join(folder, 'copy'), '--data', join(folder, 'other'))
  t.match(damaged, { code: 1, stderr: /nothing was restored: / })
  t.notOk(existsSync(join(folder, 'other/weft.db')))
  t.match(await weft('restore', folder, '--data', data), { code: 2, stderr: /is no backup/ })
  const intact = readFileSync(join(folder, 'whole/backup.json'), 'utf8')
  for (const manifest of ['{', '{}', '{"keys":["../control.key"]}']) {
    writeFileSync(join(folder, 'whole/backup.json'), manifest)
    const refused = await weft('restore', join(folder, 'whole'), '--data', join(folder, 'other'))
    t.match(refused, { code: 2, stderr: /backup\.json is damaged/ }, manifest)
  }
  writeFileSync(join(folder, 'whole/backup.json'), intact)
  t.notOk(existsSync(join(folder, 'other/weft.db')))
  const taken = await weft('backup', join(folder, 'langgraph.json'), '--data', data)
  t.match(taken, { code: 2, stderr: /expected a new or an empty folder/ })
  t.match(await weft('backup', join(folder, 'none'), '--data', join(folder, 'x')), {
    code: 2,
    stderr: /there is no store/,
  })
})

t.test('weft doctor names what is wrong and what to do', async t => {
  const server = createServer(socket => socket.end()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const good = await weft('doctor', '--app', folder, '--data', data, '--port', '0', '--json')
  t.equal(good.code, 0, good.stderr)
  const found = good.json() as { check: string; state: string; found: string }[]
  t.match(
    found.find(({ check }) => check === 'store'),
    { state: 'ok', found: /SQLite in .*, schema \d+, sound/ },
  )
  t.match(
    found.find(({ check }) => check === 'application'),
    { state: 'ok', found: /small/ },
  )
  t.match(await weft('doctor', '--app', join(folder, 'none'), '--port', '0'), {
    code: 1,
    stdout: /✗ application +none/,
  })

  chmodSync(data, 0o755)
  writeFileSync(join(folder, 'langgraph.json'), '{')
  truncateSync(join(data, 'weft.db'), 40_000)
  const bad = await weft('doctor', '--app', folder, '--data', data, '--port', `${port}`)
  t.match(bad, {
    code: 1,
    stdout: new RegExp(
      `✗ application .*not valid JSON[\\s\\S]*✗ store [\\s\\S]*chmod 700[\\s\\S]*✗ port +${port} of 127`,
    ),
    stderr: /^weft: not in order: application, .*store, port\n$/,
  })
  t.notMatch(bad.stdout, /\u001b/, 'no colours outside of a terminal')
})

t.test('weft doctor says when processes of several versions run', async t => {
  let versions = ['0.2.0', '0.2.0']
  const answers: { [path: string]: () => object } = {
    '/info': () => ({ version: '0.2.0' }),
    '/metrics?format=json': () => ({
      samples: versions.map((version, n) => ({
        name: 'weft_build_info',
        value: 1,
        labels: { role: ['edge', 'graphs'][n], version },
      })),
    }),
  }
  const server = createHttpServer(({ url = '' }, response) => response.end(JSON.stringify(answers[url]?.() ?? {})))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const look = async () => (await weft('doctor', '--port', `${port}`, '--json')).json() as object[]
  const ofPort = (found: object[]) => found.find(one => 'check' in one && one.check === 'port')
  t.match(ofPort(await look()), { state: 'ok', found: /a server answers at .* \(0\.2\.0\)$/ })
  versions = ['0.2.0', '0.1.0']
  t.match(ofPort(await look()), { state: 'note', found: /its cluster has edge 0\.2\.0, graphs 0\.1\.0$/ })
})
