import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { bytesHandler, jsonHandler, serve } from '../../bus/serve.js'
import { type Disconnect, validateDisconnect } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { figureOf } from '../helpers/figures.js'
import { startNats } from '../helpers/nats.js'

t.test('calls', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const log = openLog('test', 'silent')
  const worker = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const edge = await openLink({ url: nats.url('edge'), role: 'edge', log })
  t.teardown(async () => {
    await edge.close()
    await worker.close()
  })
  let slow = 0
  const served = serve(worker, 'rpc.threads', 'threads', {
    echo: bytesHandler(bytes => ({ body: bytes })),
    name: jsonHandler<Disconnect>(validateDisconnect, ({ run_id }, { head }) => ({
      body: `${run_id} ${head.request_id}`,
      head: { headers: { 'x-a': 'b' } },
    })),
    known: bytesHandler(() => {
      throw fail('conflict', 'Already there')
    }),
    unknown: bytesHandler(() => {
      throw new Error('the password is hunter2')
    }),
    slow: bytesHandler(async () => {
      await new Promise(done => setTimeout(done, 300))
      slow++
      return { body: 'late' }
    }),
  })
  const caller = openCaller(edge)
  t.teardown(() => caller.close())
  const text = async (verb: string, body: string | Uint8Array, options = {}) => {
    const answer = await caller.call(`rpc.threads.${verb}`, { request_id: 'r1' }, Buffer.from(body), options)
    return { ...answer.head, text: Buffer.from(answer.body).toString() }
  }

  t.match(await text('name', '{"run_id":"Ada"}'), { status: 200, text: 'Ada r1', headers: { 'x-a': 'b' } })
  t.match(await text('known', ''), { status: 409, code: 'conflict', detail: 'Already there' })
  const masked = await text('unknown', '')
  t.match(masked, { status: 500, code: 'internal', detail: 'Internal server error' })
  t.notMatch(JSON.stringify(masked), /hunter2/)
  t.match(await text('nothing', ''), { status: 404 })
  const refused = (call: string, code: string) => figureOf(worker, 'weft_calls_refused_total', { call, code })
  t.equal(await refused('rpc.threads.known', 'conflict'), 1)
  t.equal(await refused('rpc.threads.unknown', 'internal'), 1)
  t.equal(await refused('rpc.threads.*', 'not_found'), 1, 'a name that a caller invented is no label')

  t.match(await text('name', new Uint8Array([0x22, 0xff, 0x22])), { status: 400, detail: /UTF-8/ })
  t.match(await text('name', '{"run_id":'), { status: 400, detail: /not valid JSON/ })
  t.match(await text('name', `${'['.repeat(101)}${']'.repeat(101)}`), { status: 400, detail: /deeper than 100/ })
  t.match(await text('name', `[${'{},'.repeat(1_000_001)}{}]`), { status: 400, detail: /more than 1000000 values/ })
  t.match(await text('name', JSON.stringify(','.repeat(1_000_001))), { status: 422 }, 'commas in a string do not count')
  t.match(await text('name', '{"run_id":5}'), { status: 422, detail: 'run_id: expected a text, got 5' })
  t.match(await text('name', '{}'), { status: 422, detail: 'run_id: expected a text, got nothing' })
  t.match(await text('name', '"[[[[{{{{\\"[["'), { status: 422 }, 'brackets in a string are no depth')

  const many = await Promise.all(Array.from({ length: 5_000 }, (_, i) => text('echo', `${i}`)))
  t.ok(
    many.every(({ text }, i) => text === `${i}`),
    'five thousand calls at once, each its own answer',
  )

  for (const size of [900 * 1024, 1024 * 1024, 20 * 1024 * 1024, 64 * 1024 * 1024]) {
    const body = Buffer.alloc(size, 'abcdefghijk')
    const answer = await caller.call('rpc.threads.echo', { request_id: 'big' }, body, { timeout: 60_000 })
    t.ok(body.equals(Buffer.from(answer.body)), `${size} bytes there and back`)
  }
  const several = await Promise.all(
    [1, 2, 3, 4].map(n =>
      caller.call('rpc.threads.echo', { request_id: 'big' }, Buffer.alloc(3_000_000, `${n}`), { timeout: 60_000 }),
    ),
  )
  t.ok(
    several.every(({ body }, i) => Buffer.alloc(3_000_000, `${i + 1}`).equals(Buffer.from(body))),
    'several large ones at once',
  )
  t.match(await text('echo', Buffer.alloc(257 * 1024 * 1024), { timeout: 30_000 }), { status: 413 })

  await t.rejects(text('slow', '', { timeout: 100 }), { code: 'unavailable' })
  await t.rejects(caller.call('rpc.runs.get', { request_id: 'x' }, undefined, { patience: 200 }), {
    code: 'unavailable',
    message: /No worker serves/,
  })

  const now = Date.now
  let steps = 0
  Date.now = () => now() + 60_000 * ++steps
  t.match(await text('slow', ''), { text: 'late' }, 'a clock that is set forward costs no call')
  Date.now = now

  const last = text('slow', '')
  await new Promise(done => setTimeout(done, 50))
  await served.quiet()
  t.match(await last, { text: 'late' }, 'what was taken is answered before quiet ends')
  t.ok(slow >= 1)
  await t.rejects(text('echo', '', { patience: 100 }), { code: 'unavailable' })
})

t.test('a call that is repeated until a worker answers', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const log = openLog('test', 'silent')
  const worker = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const edge = await openLink({ url: nats.url('edge'), role: 'edge', log })
  const caller = openCaller(edge)
  t.teardown(async () => {
    caller.close()
    await edge.close()
    await worker.close()
  })
  const head = { request_id: 'r1' }
  const quick = { patience: 0, pause: 10 }
  let tries = 0
  let refusals = 0
  const handlers = {
    third: bytesHandler(() => {
      if (++tries < 3) throw fail('unavailable', 'The store is away')
      return { body: 'there' }
    }),
    never: bytesHandler(() => {
      refusals++
      throw fail('conflict', 'Already there')
    }),
  }

  const errors: unknown[] = []
  const late = await caller.callUntilAnswered('rpc.threads.third', head, undefined, {
    ...quick,
    onRetry(last) {
      errors.push(last)
      if (errors.length === 1) serve(worker, 'rpc.threads', 'threads', handlers)
    },
  })
  t.match(errors[0], { code: 'unavailable', message: /No worker serves/ })
  t.match(late.head, { status: 503 }, 'any answer is one, unless the caller says otherwise')

  tries = 0
  const { body } = await caller.askUntilAnswered('rpc.threads.third', head, undefined, quick)
  t.equal(Buffer.from(body).toString(), 'there', 'an answer of `unavailable` is repeated')
  t.equal(tries, 3)

  await t.rejects(caller.askUntilAnswered('rpc.threads.never', head, undefined, quick), { code: 'conflict' })
  t.equal(refusals, 1, 'any other refusal is final')

  const retryIf = () => true
  const until = performance.now() + 100
  const last = await caller.callUntilAnswered('rpc.threads.never', head, undefined, { ...quick, until, retryIf })
  t.match(last.head, { code: 'conflict' }, 'at the deadline the last answer counts')
  t.ok(refusals > 2)
  await t.rejects(
    caller.callUntilAnswered('rpc.runs.get', head, undefined, { ...quick, until: performance.now() + 50 }),
    {
      code: 'unavailable',
    },
  )

  const stop = new AbortController()
  const asked = refusals
  const aborted = caller.callUntilAnswered('rpc.threads.never', head, undefined, {
    pause: 60_000,
    retryIf,
    signal: stop.signal,
    onRetry: () => setImmediate(() => stop.abort()),
  })
  t.match((await aborted).head, { code: 'conflict' }, 'an abort ends the pause')
  t.equal(refusals, asked + 1)

  const open60 = caller.callUntilAnswered('rpc.runs.get', head, undefined, { patience: 60_000, timeout: 60_000 })
  caller.close()
  await t.rejects(open60, { code: 'unavailable', message: /closed/ })
  await t.rejects(caller.call('rpc.threads.third', head), { message: /closed/ }, 'a closed caller asks nothing')
})

t.test('a wrong password and a dead port are one sentence each', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const log = openLog('test', 'silent')
  await t.rejects(
    openLink({ url: `nats://edge:wrong@127.0.0.1:${nats.port}`, role: 'edge', log }),
    /no NATS server answers as "edge"/,
  )
  await t.rejects(
    openLink({ url: 'nats://edge:x@127.0.0.1:1', role: 'edge', log }),
    /no NATS server answers as "edge" at 127.0.0.1:1/,
  )
})
