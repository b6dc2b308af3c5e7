/** The parts of an application that are written in Python, in an app host. The rows of auth are in api/auth/python. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type AppHost, openAppHost } from '../../workers/child/app-host.js'
import { openSocketFolder } from '../../workers/child/socket-folder.js'
import { until } from '../helpers/until.js'

const skip = withoutPython() ?? false
const folder = mkdtempSync(join(tmpdir(), 'weft-python-parts-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const python = skip === false ? await venvOf(join(root, 'test/host-python/requirements.txt')) : ''
const options = { memory_mb: 256, user: null, sandbox: null, python, log: openLog('edge', 'silent', 'json') }
const files = join(root, 'test/apps')

let apps = 0
function application(sections: object): string {
  const path = join(folder, `${++apps}.json`)
  writeFileSync(path, JSON.stringify({ graphs: { agent: './agent.mjs:graph' }, ...sections }))
  return path
}

const embedder = (name: string) => ({ store: { index: { dims: 3, embed: `${files}/app-host/embed.py:${name}` } } })

async function embed(host: AppHost, texts: string[], kind: 'documents' | 'query' = 'documents') {
  const bytes = await host.call({ verb: 'embed', kind, texts })
  return [...new Float32Array(new Uint8Array(bytes).buffer)]
}

t.test('texts become vectors, and a wrong vector is refused with one sentence', { skip }, async t => {
  const host = openAppHost({ app: application(embedder('embed')), parts: ['embed'], ...options })
  t.teardown(() => host.stop())
  t.match(await host.hello, { error: null, embed: true })
  t.same(await embed(host, ['aab', 'c']), [2, 1, 0, 0, 0, 1])
  for (const [text, message] of [
    ['throw', /the model is away/],
    ['short', /a vector of 1 numbers; store\.index\.dims is 3/],
    ['infinite', /not finite/],
  ] as const)
    await t.rejects(embed(host, [text]), { code: 'invalid', message })
})

t.test('an Embeddings of the application embeds documents and queries', { skip }, async t => {
  const host = openAppHost({ app: application(embedder('embeddings')), parts: ['embed'], ...options })
  t.teardown(() => host.stop())
  t.match(await host.hello, { error: null, embed: true })
  t.same(await embed(host, ['abc']), [3, 0, 0])
  t.same(await embed(host, ['abc'], 'query'), [0, 3, 0])
})

t.test('a part that cannot be loaded is one sentence', { skip }, async t => {
  const host = openAppHost({ app: application(embedder('nothing')), parts: ['embed'], ...options })
  t.teardown(() => host.stop())
  t.match((await host.hello).error, /store\.index\.embed: .* is no embedder/)
})

t.test('the lifespan of http.app ends with its process, also when the app host is told to stop', { skip }, async t => {
  const sockets = openSocketFolder(null)
  t.teardown(() => sockets.remove())
  const ended = join(folder, 'ended')
  const app = application({ http: { app: `${files}/custom-routes-py/app.py:app` } })
  const env = { ...process.env, TEST_LIFESPAN: ended }
  const host = openAppHost({ app, parts: ['http'], sockets: sockets.path, env, ...options })
  t.match(await host.hello, { error: null, http: ['/'] })
  t.notOk(existsSync(ended))
  await host.stop()
  await until(async () => existsSync(ended))
  t.equal(readFileSync(ended, 'utf8'), 'ended')
})
