import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { parseAllowed } from '../../workers/outbound.js'
import type { Deps } from '../../workers/resources/context.js'
import { webhookOf } from '../../workers/resources/runs/webhook-check.js'
import { deliver } from '../../workers/resources/runs/webhooks.js'
import { figureOf } from '../helpers/figures.js'
import { until } from '../helpers/until.js'
import { run, thread } from '../store/conformance-rows.js'
import { stage } from './stage.js'

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
  deps.allowed.hosts.has = name => name.startsWith('127.0.0.1')
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
    await deps.http.announce('built-in', 'default', http)
    const url = disable_loopback === undefined ? {} : { disable_loopback }
    await deps.webhooks.announce('built-in', 'default', { headers: {}, url, disabled: false })
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
