import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { WebhookField, WebhookUrlRules } from '../../schemas/webhooks.js'
import { parseAllowed } from '../../workers/outbound.js'
import type { Deps } from '../../workers/resources/context.js'
import { runFields, runText } from '../../workers/resources/rows/text.js'
import { webhookOf } from '../../workers/resources/runs/webhook-check.js'
import { deliver } from '../../workers/resources/runs/webhooks.js'
import { figureOf } from '../helpers/figures.js'
import { until } from '../helpers/until.js'
import { run, thread } from '../store/conformance-rows.js'
import { announceSettings, stage } from './stage.js'

/** A host on a free port of this machine. */
async function host(t: Test, answer: (response: ServerResponse) => void) {
  const open = new Set<ServerResponse>()
  let calls = 0
  const server = createServer((_, response) => {
    calls++
    open.add(response)
    response.on('close', () => open.delete(response))
    answer(response)
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise(done => server.close(done))
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/secret-token`, open, calls: () => calls }
}

async function place(t: Test) {
  const { store, all } = await stage(t, 1)
  const deps: Deps = { ...all[0]!, allowed: parseAllowed('127.0.0.0/8') }
  return {
    store,
    deps,
    async ended(webhook: string) {
      const row = thread()
      const one = run(row.thread_id, { status: 'success', webhook, webhook_due_at: Date.now() - 1, ended_at: 1 })
      await store.apply([
        { step: 'threads.insert', row },
        { step: 'runs.insert', row: one },
      ])
      return one.run_id
    },
  }
}

t.test('a host that never answers takes four places and leaves the others to other hosts', async t => {
  const { store, deps, ended } = await place(t)
  const hanging = await host(t, () => {})
  const good = await host(t, response => response.end('ok'))
  const ids = await Promise.all(Array.from({ length: 30 }, () => ended(hanging.url)))
  const taken = await Promise.all(ids.map(run_id => deliver(deps, run_id)))
  t.equal(taken.filter(Boolean).length, 4)
  await until(() => hanging.open.size === 4)
  const turnedAway = (await store.runs.summary(ids)).filter(({ webhook_tries }) => webhook_tries === 0)
  t.equal(turnedAway.length, 26)
  t.ok(
    turnedAway.every(({ webhook_due_at }) => webhook_due_at! > Date.now()),
    'they are due later, so that they hide no other row',
  )
  const other = await ended(good.url)
  t.equal(await deliver(deps, other), true)
  await until(async () => (await store.runs.summary([other]))[0]!.webhook_due_at === null)
  t.equal(good.calls(), 1)
  t.equal(await figureOf(deps.link, 'weft_webhooks_total', { outcome: 'delivered' }), 1)
})

t.test('a host that fails repeatedly is not called for a while', async t => {
  const { store, deps, ended } = await place(t)
  const broken = await host(t, response => response.writeHead(500).end())
  for (let i = 1; i <= 5; i++) {
    const run_id = await ended(broken.url)
    await deliver(deps, run_id)
    await until(() => !deps.deliveries.underWay.has(run_id))
  }
  t.equal(broken.calls(), 5)
  const next = await ended(broken.url)
  t.equal(await deliver(deps, next), false)
  t.equal(broken.calls(), 5)
  const [row] = await store.runs.summary([next])
  t.match(row, { webhook_tries: 0 }, 'it does not count as a try')
  t.ok(row!.webhook_due_at! > Date.now() + 10_000)
})

t.test('the log names the host of a webhook, not its path, which often is a secret', async t => {
  const { deps, ended } = await place(t)
  const entries: string[] = []
  const keep = (entry: { err?: Error }) => void entries.push(`${JSON.stringify(entry)} ${entry.err?.stack ?? ''}`)
  const log = { ...deps.link.log, info: keep, warn: keep, error: keep } as unknown as Deps['link']['log']
  const watched: Deps = { ...deps, link: { ...deps.link, log } }
  const broken = await host(t, response => response.destroy())
  const refused = 'http://192.168.0.1/secret-token'
  for (const url of [broken.url, refused]) {
    const before = entries.length
    await deliver(watched, await ended(url))
    await until(() => entries.length > before)
  }
  t.match(entries[1], /http:\/\/192\.168\.0\.1 is not called/)
  t.notMatch(entries.join(), /secret-token/)
})

t.test(
  'the rules of the application that the operator starts open addresses, those of a deployment only close',
  async t => {
    const { deps } = await place(t)
    const closed: Deps = { ...deps, allowed: parseAllowed('') }
    const rules = (app: string, url: WebhookUrlRules) =>
      announceSettings(deps, app, {
        app_webhooks: { url, disabled: false, by_operator: app === 'built-in', sealed: null },
      })
    const fault = (url: string, app = 'built-in', given = closed) =>
      webhookOf(given, app, 'default', url).then(
        () => null,
        (error: Error) => error.message,
      )
    const inner = [
      'http://127.0.0.1:9000/',
      'http://[::1]:9000/',
      'http://localhost:9000/',
      'http://host.docker.internal/',
    ]
    const privates = ['http://10.1.2.3:9000/', 'http://192.168.0.1/', 'http://[fd00::1]/']
    const refuses = async (urls: string[], says: RegExp, app?: string, given?: Deps) => {
      for (const url of urls) t.match(await fault(url, app, given), says, url)
    }
    const takes = async (urls: string[], app?: string, given?: Deps) => {
      for (const url of urls) t.equal(await fault(url, app, given), null, url)
    }
    const isOpen = /WEFT_ALLOW_HOSTS/
    await refuses([...inner.slice(0, 3), ...privates, 'http://example.org:9000/'], isOpen)
    await rules('built-in', { disable_loopback: false })
    await takes(inner)
    await refuses([...privates, 'http://169.254.169.254/'], /WEFT_ALLOW_HOSTS|metadata/)
    await rules('built-in', { disable_private_ips: false })
    await takes(privates)
    await refuses([...inner.slice(0, 3), 'http://100.100.100.200/'], /WEFT_ALLOW_HOSTS|metadata/)
    await rules('built-in', { allowed_ports: [9000, 443] })
    await takes(['http://example.org:9000/', 'https://example.org/'])
    await refuses(['http://example.org:9001/', 'http://127.0.0.1:9000/'], isOpen)
    await refuses(['http://example.org/', 'http://example.org:8080/'], /allowed_ports/)
    await rules('built-in', { allowed_domains: ['hooks.internal', '*.Corp.example', '127.0.0.1'] })
    await takes(['http://hooks.internal:9000/', 'http://a.corp.example:22/', 'http://127.0.0.1:9000/'])
    await refuses(['http://corp.example/', 'http://other.internal/'], /allowed_domains/)
    await refuses(['http://10.0.0.1/'], isOpen)

    const all = { disable_loopback: false, disable_private_ips: false, allowed_ports: [9000, 80] }
    await rules('deployment', all)
    await refuses([...inner.slice(0, 3), ...privates, 'http://example.org:9000/'], isOpen, 'deployment')
    await rules('deployment', { allowed_domains: ['127.0.0.1', 'localhost'] })
    await refuses(inner.slice(0, 3), isOpen, 'deployment')
    await takes(['http://127.0.0.1:9000/'], 'deployment', deps)

    const opened: Deps = { ...deps, allowed: parseAllowed('127.0.0.0/8, 10.0.0.0/8, ::/0, localhost') }
    for (const app of ['built-in', 'deployment']) {
      await rules(app, { disable_loopback: true, disable_private_ips: true })
      await refuses(
        ['http://127.0.0.1/', 'http://[::ffff:127.0.0.1]/', 'http://10.1.2.3/'],
        /application does not close/,
        app,
        opened,
      )
      await refuses(['http://localhost/'], /disable_loopback/, app, opened)
      await takes(['http://[2606:2800:220:1::1]:9000/'], app, opened)
    }
  },
)

t.test('a delivery has the members that the application allows, exactly as they are stored', async t => {
  const bodies: string[] = []
  const { store, deps } = await place(t)
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', data => (body += data))
    request.on('end', () => {
      bodies.push(body)
      response.end()
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => new Promise(done => server.close(done)))
  const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const send = async (fields: WebhookField[] | null) => {
    const app_webhooks = { url: {}, disabled: false, fields, by_operator: true, sealed: null }
    await announceSettings(deps, 'built-in', { app_webhooks })
    const row = thread()
    const error = '{"error":"E","message":"m"}'
    const more = { status: 'error', webhook, webhook_due_at: Date.now() - 1, ended_at: 1, error } as const
    const one = run(row.thread_id, { ...more, kwargs: '{"input":12345678901234567890.0}' })
    await store.apply([
      { step: 'threads.insert', row },
      { step: 'runs.insert', row: one },
      {
        step: 'threads.state',
        thread_id: row.thread_id,
        latest_checkpoint_id: null,
        values: Buffer.from('{"a":1.0}'),
        rest: null,
      },
    ])
    await deliver(deps, one.run_id)
    await until(() => !deps.deliveries.underWay.has(one.run_id))
    return { text: bodies.at(-1)!, one }
  }
  const { text, one } = await send(null)
  const whole = JSON.parse(text) as object
  const shown = JSON.parse(runText(one)) as object
  t.match(whole, { ...shown, updated_at: /./, values: { a: 1 }, error: { error: 'E' } })
  t.same(Object.keys(whole), [
    // The error of a run comes last.
    ...Object.keys(shown).filter(name => name !== 'error'),
    ...['run_started_at', 'run_ended_at', 'webhook_sent_at', 'values', 'error'],
  ])
  const fields = Object.entries({ ...runFields(one), error: one.error })
  t.equal(`{${fields.map(([name, text]) => `"${name}":${text}`)}}`, runText(one))
  const all = Object.keys(whole) as WebhookField[]
  for (const field of all) t.same(Object.keys(JSON.parse((await send([field])).text)), [field])
  const some = await send(['values', 'status', 'kwargs'])
  t.equal(some.text, '{"status":"error","kwargs":{"input":12345678901234567890.0},"values":{"a":1.0}}')
})

const NO_HTTP = {
  app: null,
  cors: null,
  configurable_headers: { includes: [], excludes: [] },
  logging_headers: { includes: [], excludes: [] },
  middleware_order: 'middleware_first' as const,
  enable_custom_route_auth: false,
  mount_prefix: '',
  disabled: [],
}

t.test('a path is a webhook only where the application accepts calls without authentication', async t => {
  const { deps } = await place(t)
  const routes = async (enable_custom_route_auth: boolean, disable_loopback?: boolean) => {
    const http = { ...NO_HTTP, app: './app.ts:app', enable_custom_route_auth }
    const url = disable_loopback === undefined ? {} : { disable_loopback }
    const app_webhooks = { url, disabled: false, by_operator: true, sealed: null }
    await announceSettings(deps, 'built-in', { app_http: http, app_webhooks })
  }
  const of = (path: string) => webhookOf(deps, 'built-in', 'default', path)
  const refused = (path: string, says: RegExp) => t.rejects(of(path), { code: 'invalid', message: says }, path)
  await refused('/hook', /^webhook: expected an absolute http or https URL; .* http\.app .* does not have$/)
  t.equal(await of(''), null)
  await routes(false)
  t.equal(await of('/hook?a=1'), '/hook?a=1')
  for (const path of ['//evil.example/hook', '/a b', '/a\r\nX: y', '/\u00e9', '/\\evil.example'])
    await refused(path, /^webhook: expected an absolute .* path of a route in ASCII characters$/)
  await routes(false, true)
  await refused('/hook', /disable_loopback refuses paths$/)
  await routes(true)
  await refused('/hook', /enable_custom_route_auth refuses paths unless webhooks.url.disable_loopback is false$/)
  await routes(true, false)
  t.equal(await of('/hook'), '/hook')
})
