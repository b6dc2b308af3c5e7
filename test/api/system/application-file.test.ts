/** One application whose langgraph.json uses what the others do not: http, webhooks, defaults of assistants. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(60_000)

const graphs = resolve('test/apps/basic/payload.mjs')

t.test('langgraph.json', async t => {
  const calls: { path: string; headers: IncomingHttpHeaders; body: string }[] = []
  let onCall = () => {}
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', data => (body += data))
    request.on('end', () => {
      calls.push({ path: request.url ?? '', headers: request.headers, body })
      response.writeHead(204).end()
      onCall()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const folder = mkdtempSync(join(tmpdir(), 'weft-file-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const token = `$${'{{ env.LG_WEBHOOK_TOKEN }}'}`
  const description = {
    graphs: { seen_config: `${graphs}:seen_config` },
    env: { LG_WEBHOOK_TOKEN: 'hush' },
    http: {
      mount_prefix: '/api',
      disable_store: true,
      configurable_headers: { includes: ['x-*'], excludes: ['x-internal-*'] },
    },
    webhooks: {
      headers: { authorization: `Bearer ${token}`, 'webhook-id': 'forged' },
      url: { allowed_domains: ['127.0.0.1', 'localhost'], allowed_ports: [port], max_url_length: 100 },
      allowed_fields: ['run_id', 'status'],
    },
    image_distro: 'wolfi',
  }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify(description))
  const defaults = { seen_config: { context: { tone: 'kind' }, tags: ['d'], configurable: { model: 'm' } } }
  const cluster = await startCluster({
    app: folder,
    env: { LANGGRAPH_CONFIG: JSON.stringify(defaults) },
  })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(`${cluster.url}/api`)

  await t.test('the log names ignored keys once', async t => {
    t.equal(cluster.output().match(/these keys are ignored: image_distro/g)?.length, 1)
  })

  await t.test('the prefix is in front of the application, and disabled groups are missing', async t => {
    t.equal((await fetch(`${cluster.url}/api/info`)).status, 200)
    t.equal((await fetch(`${cluster.url}/threads`, { method: 'POST', body: '{}' })).status, 404)
    t.equal((await fetch(`${cluster.url}/ok`)).status, 200)
    await t.rejects(client.store.searchItems(['a']), /HTTP 404/)
  })

  await t.test('LANGGRAPH_CONFIG is the default of the system assistant', async t => {
    const [assistant] = await client.assistants.search({ graphId: 'seen_config' })
    t.match(assistant, { config: { tags: ['d'], configurable: { model: 'm' } }, context: { tone: 'kind' } })
  })

  await t.test('a graph and a cron find the configured headers of the request', async t => {
    const headers = { 'x-tenant': 'acme', 'x-internal-a': '1' }
    const ask = (path: string, body: object) =>
      fetch(`${cluster.url}/api${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const answer = await ask('/runs/wait', { assistant_id: 'seen_config', input: {} })
    const { configurable } = ((await answer.json()) as { seen_config: { configurable: object } }).seen_config
    t.match(configurable, { 'x-tenant': 'acme', model: 'm' })
    t.notOk('x-internal-a' in configurable)
    const cron = (await (await ask('/runs/crons', { assistant_id: 'seen_config', schedule: '0 0 1 1 *' })).json()) as {
      payload: { config: { configurable: object } }
    }
    t.same(cron.payload.config.configurable, { 'x-tenant': 'acme' })
  })

  await t.test('webhooks have the headers and fields of the application, and only its hosts and ports', async t => {
    const called = new Promise<void>(done => (onCall = done))
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'seen_config', { input: {}, webhook: `http://127.0.0.1:${port}/good` })
    await called
    t.match(calls, [{ path: '/good', headers: { authorization: 'Bearer hush' } }])
    t.not(calls[0]!.headers['webhook-id'], 'forged')
    t.same(JSON.parse(calls[0]!.body), { run_id: calls[0]!.headers['webhook-id'], status: 'success' })
    const refused: [url: string, sentence: RegExp][] = [
      [`http://127.0.0.1:${port + 1}/`, /allowed_ports/],
      ['https://example.org/', /allowed_domains/],
      [`http://127.0.0.1:${port}/${'x'.repeat(100)}`, /at most 100 characters/],
      ['http://10.0.0.1/', /WEFT_ALLOW_HOSTS/],
    ]
    for (const [webhook, sentence] of refused) {
      await t.rejects(client.runs.create(thread_id, 'seen_config', { input: {}, webhook }), sentence, webhook)
      await t.rejects(
        client.crons.create('seen_config', { schedule: '0 0 1 1 *', webhook }),
        sentence,
        `cron ${webhook}`,
      )
    }
  })
})

t.test('a webhook header without its variable stops the start', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-file-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const headers = { authorization: `$${'{{ env.LG_WEBHOOK_MISSING }}'}` }
  const description = { graphs: { seen_config: `${graphs}:seen_config` }, webhooks: { headers } }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify(description))
  await t.rejects(startCluster({ app: folder }), /the variable LG_WEBHOOK_MISSING is not set/)
})
