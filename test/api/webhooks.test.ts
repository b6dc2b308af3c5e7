import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { WebhookDeliveries } from '../../schemas/webhooks.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

interface Call {
  path: string
  headers: { [name: string]: string | string[] | undefined }
  body: string
}

t.setTimeout(60_000)

t.test('webhooks: one signed call after the end of a run, repeated after a failure', async t => {
  const calls: Call[] = []
  const answers: { [path: string]: number[] } = { '/flaky': [500] }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', data => {
      body += data
    })
    request.on('end', () => {
      const path = request.url ?? ''
      calls.push({ path, headers: request.headers, body })
      response.writeHead(answers[path]?.shift() ?? 204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const secret = Buffer.from('a secret of our own').toString('base64')
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: { WEFT_ALLOW_HOSTS: host, WEFT_WEBHOOK_SECRET: `whsec_${secret}` },
  })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const called = async (path: string, n = 1) => {
    for (const end = Date.now() + 20_000; Date.now() < end; await new Promise(done => setTimeout(done, 50))) {
      const found = calls.filter(call => call.path === path)
      if (found.length >= n) return found
    }
    throw new Error(`${path} was not called ${n} times`)
  }

  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'counter', { input: { steps: 2 }, webhook: `http://${host}/good` })
  const [call] = await called('/good')
  const payload = JSON.parse(call!.body) as { [name: string]: unknown }
  t.match(payload, {
    thread_id,
    status: 'success',
    values: { steps: 2, numbers: [1, 2] },
    metadata: { graph_id: 'counter' },
  })
  for (const name of [
    'run_id',
    'assistant_id',
    'kwargs',
    'created_at',
    'updated_at',
    'multitask_strategy',
    'run_started_at',
    'run_ended_at',
    'webhook_sent_at',
  ])
    t.ok(payload[name], name)
  t.notOk('error' in payload)
  t.match(call!.headers['content-type'], /^application\/json/)
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = call!.headers
  t.equal(id, payload.run_id)
  t.equal(
    signature,
    `v1,${createHmac('sha256', Buffer.from(secret, 'base64')).update(`${id}.${at}.${call!.body}`).digest('base64')}`,
  )

  await client.runs.wait(null, 'fail', { input: {}, webhook: `http://${host}/failed`, raiseError: false })
  const [failed] = await called('/failed')
  t.match(JSON.parse(failed!.body), { status: 'error' })
  t.same(JSON.parse(failed!.body).error, { error: 'TooBadError', message: 'too bad' }, 'without its place')

  await client.runs.wait(thread_id, 'echo', { input: {}, webhook: `http://${host}/flaky` })
  const [first, second] = await called('/flaky', 2)
  t.equal(first!.headers['webhook-id'], second!.headers['webhook-id'], 'the same id each time')

  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(`${cluster.url}${path}`, { method })
    return { status: answer.status, body: (await answer.json()) as WebhookDeliveries & { detail: string } }
  }
  const run_id = String(first!.headers['webhook-id'])
  const path = `/threads/${thread_id}/runs/${run_id}/webhook`
  await until(async () => (await ask(path)).body.state === 'delivered')
  const listed = await ask(path)
  t.same(await ask(`/runs/${run_id}/webhook`), listed)
  const attempts = [
    { attempt: 1, status: 500 },
    { attempt: 2, status: 204 },
  ]
  t.match(listed, { status: 200, body: { run_id, thread_id, url: `http://${host}`, next_attempt_at: null, attempts } })
  const repeated = await ask(`${path}/repeat`, 'POST')
  t.match(repeated, { status: 202, body: { run_id, attempts } })
  const [, , third] = await called('/flaky', 3)
  t.equal(third!.headers['webhook-id'], run_id)
  await until(async () => (await ask(path)).body.attempts.at(-1)?.attempt === 3)
  const bare = await client.runs.create(thread_id, 'echo', { input: {} })
  await client.runs.join(thread_id, bare.run_id)
  const open = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 600, webhook: `http://${host}/` })
  for (const [refused, status, says] of [
    [bare, 404, /^The run has no webhook$/],
    [open, 409, /^The run has not ended/],
  ] as const)
    t.match(await ask(`/threads/${thread_id}/runs/${refused.run_id}/webhook/repeat`, 'POST'), {
      status,
      body: { detail: says },
    })
  t.match(await ask(`/runs/${open.run_id}/webhook`), { status: 200, body: { state: 'pending', attempts: [] } })
  await client.runs.cancel(thread_id, open.run_id, true, 'rollback')

  const busy = await client.threads.create()
  await client.runs.create(busy.thread_id, 'slow', { input: { ms: 20_000 } })
  await client.runs.create(busy.thread_id, 'echo', { input: {}, webhook: `http://${host}/dropped` })
  await client.runs.wait(busy.thread_id, 'echo', { input: {}, multitaskStrategy: 'interrupt' })
  const [dropped] = await called('/dropped')
  t.match(JSON.parse(dropped!.body), { status: 'interrupted' }, 'a run that a newer one replaced has its webhook, too')

  const stopped = await client.threads.create()
  for (const [path, action] of [
    ['/rolled-back', 'rollback'],
    ['/cancelled', 'interrupt'],
  ] as const) {
    const webhook = `http://${host}${path}`
    const { run_id } = await client.runs.create(stopped.thread_id, 'slow', { input: { ms: 20_000 }, webhook })
    // A run that is running may not have taken its input yet.
    const stateOf = async () => (await client.threads.getState<{ ms?: number }>(stopped.thread_id)).values
    await until(async () => (await stateOf()).ms === 20_000)
    await client.runs.cancel(stopped.thread_id, run_id, true, action)
  }
  const [cancelled] = await called('/cancelled')
  t.match(JSON.parse(cancelled!.body), { status: 'interrupted', values: { ms: 20_000 } })
  t.notOk(
    calls.some(({ path }) => path === '/rolled-back'),
    'a run that was rolled back calls no webhook',
  )

  for (const url of [
    'http://169.254.169.254/',
    'http://10.0.0.1/',
    'http://localhost/',
    'ftp://example.org/',
    '/relative',
  ]) {
    await t.rejects(client.runs.wait(thread_id, 'echo', { input: {}, webhook: url }), /HTTP 422.*webhook/, url)
  }
})
