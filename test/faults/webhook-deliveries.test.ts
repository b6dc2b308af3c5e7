import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { lifecycle } from '../../bus/lifecycle.js'
import type { WebhookDeliveries } from '../../schemas/webhooks.js'
import type { RunRow } from '../../store/rows/runs.js'
import { parseAllowed } from '../../workers/outbound.js'
import type { Deps } from '../../workers/resources/context.js'
import { reportMetrics } from '../../workers/resources/metrics.js'
import { deliveries, repeat } from '../../workers/resources/runs/webhook-repeat.js'
import { deliver } from '../../workers/resources/runs/webhooks.js'
import { startRoles } from '../helpers/cluster.js'
import { figureOf } from '../helpers/figures.js'
import { sender } from '../helpers/http.js'
import { until } from '../helpers/until.js'
import { announceSettings, stage } from '../resources/stage.js'
import { run, thread } from '../store/conformance-rows.js'

t.setTimeout(60_000)

/** A receiver whose next answers are given; it answers 204 when none is left. `hang`: no answer until `free` is called. */
async function receiver(t: Test) {
  const answers: (number | 'hang' | 'cut')[] = []
  const hanging: ServerResponse[] = []
  const ids: string[] = []
  const server = createServer((request, response) => {
    ids.push(String(request.headers['webhook-id']))
    const answer = answers.shift() ?? 204
    if (answer === 'hang') hanging.push(response)
    else if (answer === 'cut') response.destroy()
    else response.writeHead(answer, { location: `http://127.0.0.1:${port}/elsewhere` }).end('the secret of a receiver')
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise(done => server.close(done))
  })
  const origin = `http://127.0.0.1:${port}`
  return { origin, url: `${origin}/a-secret-path?token=a-secret`, answers, hanging, ids, calls: () => ids.length }
}

async function place(t: Test) {
  const { store, all } = await stage(t, 2)
  const workers = all.map((deps): Deps => {
    const allowed = parseAllowed('127.0.0.0/8')
    allowed.hosts.has = name => name.startsWith('127.0.0.1')
    return { ...deps, allowed }
  })
  const [first, second] = workers as [Deps, Deps]
  const life = lifecycle(first.link.log, 1_000)
  for (const deps of workers) reportMetrics(deps, life)
  t.teardown(() => life.stop())
  const row = async (run_id: string) => (await store.runs.summary([run_id]))[0]!
  return {
    store,
    first,
    second,
    row,
    /** A run that has ended; its webhook is due. */
    async ended(webhook: string | null, set: Partial<RunRow> = {}) {
      const held = thread()
      const due = webhook === null ? null : Date.now() - 1
      const one = run(held.thread_id, { status: 'success', webhook, webhook_due_at: due, ended_at: 1, ...set })
      await store.apply([
        { step: 'threads.insert', row: held },
        { step: 'runs.insert', row: one },
      ])
      return one.run_id
    },
    async seen(run_id: string, deps: Deps = first) {
      return deliveries(deps, await row(run_id))
    },
    /** Resolves when the worker has ended its attempt. */
    over: (run_id: string, deps: Deps = first) => until(() => !deps.deliveries.underWay.has(run_id)),
  }
}

t.test('a delivery is listed with its attempts, without the path and the body of the receiver', async t => {
  const { first, ended, seen, over } = await place(t)
  const { url, origin, answers } = await receiver(t)
  answers.push(302, 204)
  const run_id = await ended(url)
  t.match(await seen(run_id), { url: origin, state: 'scheduled', attempts: [] })
  await deliver(first, run_id)
  await over(run_id)
  const redirected = await seen(run_id)
  t.match(redirected, { state: 'scheduled', attempts: [{ attempt: 1, status: 302, error: null }] }, 'is not followed')
  const due = Date.parse(redirected.next_attempt_at!) - Date.now()
  t.ok(due > 0 && due <= 7_500, 'tried again after half to one and a half of 5 s')
  t.ok(Date.parse(redirected.attempts[0]!.ended_at!) >= Date.parse(redirected.attempts[0]!.started_at))
  t.equal(await figureOf(first.link, 'weft_webhooks_total', { outcome: 'retried' }), 1)

  t.match(await repeat(first, await first.store.runs.summary([run_id]).then(([one]) => one!)), { state: 'scheduled' })
  await until(async () => (await seen(run_id)).state === 'delivered')
  const delivered = await seen(run_id)
  t.match(delivered, { next_attempt_at: null, attempts: [{ status: 302 }, { attempt: 2, status: 204, error: null }] })
  t.notMatch(JSON.stringify(delivered), /secret/)
  t.equal(await figureOf(first.link, 'weft_webhooks_total', { outcome: 'delivered' }), 1)
})

t.test('one that was given up is delivered by a repeat, which has all attempts again', async t => {
  const { first, ended, seen, over, row } = await place(t)
  const { url, answers, ids } = await receiver(t)
  const run_id = await ended(url, { webhook_tries: 5 })
  answers.push(500, 503)
  await deliver(first, run_id)
  await over(run_id)
  t.match(await seen(run_id), { state: 'given_up', next_attempt_at: null, attempts: [{ status: 500 }] })
  t.equal(await figureOf(first.link, 'weft_webhooks_total', { outcome: 'given_up' }), 1)

  await repeat(first, await row(run_id))
  await until(async () => (await seen(run_id)).attempts.length === 2)
  await over(run_id)
  t.match(await seen(run_id), { state: 'scheduled', attempts: [{}, { attempt: 2, status: 503 }] }, 'it is tried again')
  await repeat(first, await row(run_id))
  await until(async () => (await seen(run_id)).state === 'delivered')
  t.same(new Set(ids), new Set([run_id]), 'the receiver gets one id')
  await repeat(first, await row(run_id))
  await until(async () => (await seen(run_id)).attempts.length === 4)
  await over(run_id)
  t.match(await seen(run_id), { state: 'delivered' }, 'also one that was delivered is repeated')
})

t.test('while an attempt is under way a repeat makes no second one', async t => {
  const { first, second, ended, seen, over, row } = await place(t)
  const { url, answers, hanging, calls } = await receiver(t)
  answers.push('hang')
  const run_id = await ended(url, { webhook_due_at: null, webhook_tries: 6 })
  t.match(await seen(run_id), { state: 'unknown' }, 'an earlier version kept no attempts')
  const before = await row(run_id)
  await Promise.all([first, second, first, second].map(deps => repeat(deps, before)))
  await until(() => hanging.length === 1)
  t.match(await seen(run_id), { state: 'sending', next_attempt_at: null })
  const waiting = await Promise.all([first, second].map(deps => figureOf(deps.link, 'weft_webhooks_under_way')))
  t.same(waiting.sort(), [0, 1], 'a figure of the worker that waits')
  t.match(await repeat(first, before), { state: 'sending' })
  t.match(await repeat(second, before), { state: 'sending' })
  hanging[0]!.writeHead(204).end()
  for (const deps of [first, second]) await over(run_id, deps)
  t.match(await seen(run_id), { state: 'delivered', attempts: [{ attempt: 1, status: 204 }] })
  t.equal(calls(), 1)
  t.equal(await figureOf(first.link, 'weft_webhooks_under_way'), 0)
})

t.test('an attempt whose worker died is followed by one of another worker', async t => {
  const { store, first, second, ended, seen, over } = await place(t)
  const { url, answers, hanging } = await receiver(t)
  answers.push('hang', 204)
  const run_id = await ended(url)
  await deliver(first, run_id)
  await until(() => hanging.length === 1)
  // The lease of the attempt ends, as it does a minute after the worker died.
  const due = Date.now() - 1
  await store.apply([{ step: 'runs.patch', run_id, where: {}, set: { webhook_due_at: due } }])
  t.match(await seen(run_id), { state: 'scheduled' })
  await deliver(second, run_id)
  await over(run_id, second)
  const attempts = [
    { attempt: 1, status: null, error: /The outcome is not known: the worker ended/ },
    { attempt: 2, status: 204, error: null },
  ]
  t.match(await seen(run_id), { state: 'delivered', attempts })
  // It was not dead: its late outcome changes nothing.
  hanging[0]!.writeHead(500).end()
  await over(run_id)
  t.match(await seen(run_id), { state: 'delivered', next_attempt_at: null, attempts })
})

t.test('a resource worker is killed between two attempts: the next one continues', async t => {
  const { origin, url, answers, ids } = await receiver(t)
  answers.push(500, 204)
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_ALLOW_HOSTS: origin.slice('http://'.length) } })
  t.teardown(() => roles.stop())
  const send = sender(roles.urls[0]!)
  const created = await send('POST', '/runs', { assistant_id: 'echo', input: {}, webhook: url })
  const { run_id } = created.body as { run_id: string }
  const kept = async () => (await send('GET', `/runs/${run_id}/webhook`)).body as Partial<WebhookDeliveries>
  await until(async () => (await kept()).attempts?.[0]?.status === 500)
  roles.resources[0]!.kill('SIGKILL')
  await roles.add('resources')
  const delivered = await until(async () => {
    const found = await kept()
    return found.state === 'delivered' && found
  })
  t.match(delivered.attempts, [
    { attempt: 1, status: 500 },
    { attempt: 2, status: 204 },
  ])
  t.same(ids, [run_id, run_id])
})

t.test('a receiver that cannot be reached is named without its address', async t => {
  const { first, ended, seen, over } = await place(t)
  const { url, answers } = await receiver(t)
  answers.push('cut')
  const closed = createServer()
  await new Promise<void>(done => closed.listen(0, '127.0.0.1', done))
  const { port } = closed.address() as AddressInfo
  await new Promise(done => closed.close(done))
  const says = async (webhook: string) => {
    const run_id = await ended(webhook)
    await deliver(first, run_id)
    await over(run_id)
    return (await seen(run_id)).attempts
  }
  t.match(await says(`http://127.0.0.1:${port}/`), [
    { status: null, error: `http://127.0.0.1:${port} cannot be reached: ECONNREFUSED` },
  ])
  t.match(await says(url), [{ status: null, error: /hang up/ }])
  t.match(await says('http://192.168.0.1/a-secret'), [{ status: null, error: /is not called: expected a public/ }])
})

t.test('nothing is sent once the application has switched webhooks off, nor by a repeat', async t => {
  const { first, ended, seen, over, row } = await place(t)
  const { url, calls } = await receiver(t)
  const run_id = await ended(url)
  const { app, pool } = await row(run_id)
  await announceSettings(first, app, { app_webhooks: { url: {}, disabled: true, sealed: null } }, pool)
  await repeat(first, await row(run_id))
  await until(async () => (await seen(run_id)).attempts[0]?.ended_at)
  await over(run_id)
  t.match((await seen(run_id)).attempts, [{ status: null, error: /switched webhooks off/ }])
  t.equal(calls(), 0)
})

t.test('the latest 20 attempts are kept', async t => {
  const { first, ended, seen, over, row } = await place(t)
  const { url } = await receiver(t)
  const run_id = await ended(url)
  await deliver(first, run_id)
  for (let n = 2; n <= 23; n++) {
    await over(run_id)
    await repeat(first, await row(run_id))
    await until(async () => (await seen(run_id)).attempts.at(-1)?.attempt === n)
  }
  await over(run_id)
  const { attempts } = await seen(run_id)
  t.same([attempts.length, attempts[0]!.attempt], [20, 4])
})

t.test('refused: a run without a webhook, one that has not ended, one that was removed', async t => {
  const { store, first, ended, row } = await place(t)
  const { url } = await receiver(t)
  const bare = await row(await ended(null))
  for (const call of [deliveries, repeat])
    await t.rejects(call(first, bare), { code: 'not_found', message: 'The run has no webhook' })
  const open = await row(await ended(url, { status: 'running', ended_at: null, webhook_due_at: null }))
  t.match(await deliveries(first, open), { state: 'pending', attempts: [] })
  await t.rejects(repeat(first, open), { code: 'conflict', message: /has not ended/ })
  const removed = await row(await ended(url))
  await store.apply([{ step: 'runs.remove', run_id: removed.run_id, where: {} }])
  for (const call of [deliveries, repeat])
    await t.rejects(call(first, removed), { code: 'not_found', message: 'Run not found' })
})
