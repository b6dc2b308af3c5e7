import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import type { CronFiring } from '../../schemas/crons.js'
import { startCluster } from '../helpers/cluster.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

/** A webhook call: the run that ended. */
interface Ended {
  run_id: string
  thread_id: string
  status: string
  metadata: { [key: string]: unknown }
  kwargs: { [key: string]: unknown }
  values?: { [key: string]: unknown }
}
// The methods are those of both lines; their types differ a little.
type Crons = { [method in keyof Client['crons']]: (...args: never[]) => Promise<Cron & Cron[] & number> }
interface Cron {
  cron_id: string
  thread_id: string | null
  next_run_date: string | null
  [field: string]: unknown
}

/** The spelling on the wire. */
const snake = (payload: object) =>
  Object.fromEntries(
    Object.entries(payload).map(([key, value]) => [key.replace(/[A-Z]/g, one => `_${one.toLowerCase()}`), value]),
  )

const EVERY_SECOND = '* * * * * *'
const RARELY = '0 0 1 1 *'
const MINUTE = 60_000

t.test('crons', async t => {
  const calls: Ended[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', data => {
      body += data
    })
    request.on('end', () => {
      calls.push({ ...JSON.parse(body), path: request.url })
      response.writeHead(204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const hook = () => {
    const path = `/${randomUUID()}`
    return {
      url: `http://${host}${path}`,
      runs: () => calls.filter(call => (call as never as { path: string }).path === path),
    }
  }
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: { WEFT_ALLOW_HOSTS: host, WEFT_CRON_SECONDS: '1', WEFT_KEEP_ENDED_MS: '0' },
  })
  t.teardown(() => cluster.stop())
  const http = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${cluster.url}${path}`, {
      method,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, body: text === '' ? null : JSON.parse(text) }
  }
  const refused = async (t: Test, path: string, body: unknown, says: RegExp, status = 422, method = 'POST') => {
    const answer = await http(method, path, body)
    t.equal(answer.status, status, `${method} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`)
    t.match(answer.body?.detail, says)
  }

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const crons = client.crons as unknown as Crons
      // The 2.0.0 line does not declare these; it sends them unchanged.
      const unknown = name.includes(' 2.0.0') ? ['endTime', 'timezone', 'metadata'] : []
      const plain = (payload: object, allowed: readonly string[]) =>
        Object.keys(payload).every(field => allowed.includes(field) || !unknown.includes(field))
      const wire = async (method: string, path: string, payload: object) =>
        (await http(method, path, snake(payload))).body as Cron & Cron[] & number
      const make = (payload: object, graph = 'echo', thread_id?: string) => {
        if (!plain(payload, ['metadata']))
          return wire('POST', thread_id === undefined ? '/runs/crons' : `/threads/${thread_id}/runs/crons`, {
            ...payload,
            assistant_id: graph,
          })
        return thread_id === undefined
          ? crons.create(graph as never, payload as never)
          : crons.createForThread(thread_id as never, graph as never, payload as never)
      }
      const change = ({ cron_id }: Cron, patch: object) =>
        plain(patch, ['metadata', 'endTime'])
          ? crons.update(cron_id as never, patch as never)
          : wire('PATCH', `/runs/crons/${cron_id}`, patch)
      const search = (query: object) =>
        plain(query, []) ? crons.search(query as never) : wire('POST', '/runs/crons/search', query)
      const count = (query: object) =>
        plain(query, []) ? crons.count(query as never) : wire('POST', '/runs/crons/count', query)
      const drop = (cron: Cron) => crons.delete(cron.cron_id as never)

      await t.test('on a thread: the cron and its runs', async t => {
        const { thread_id } = await client.threads.create()
        const { assistant_id } = await client.assistants.get('counter')
        const { url, runs } = hook()
        const cron = await make(
          {
            schedule: EVERY_SECOND,
            input: { steps: 1 },
            metadata: { who: 'ada' },
            config: { tags: ['c'], configurable: { x: 1 } },
            context: { y: 2 },
            webhook: url,
            endTime: '2999-01-01T00:00:00+02:00',
            onRunCompleted: 'delete',
          },
          'counter',
          thread_id,
        )
        t.match(cron, {
          cron_id: /^[0-9a-f-]{36}$/,
          assistant_id,
          thread_id,
          schedule: EVERY_SECOND,
          timezone: null,
          end_time: '2998-12-31T22:00:00.000Z',
          enabled: true,
          on_run_completed: null,
          user_id: null,
          metadata: { who: 'ada' },
          payload: {
            assistant_id,
            schedule: EVERY_SECOND,
            input: { steps: 1 },
            metadata: { who: 'ada' },
            config: { tags: ['c'], configurable: { x: 1 } },
            context: { y: 2 },
            webhook: url,
          },
        })
        for (const field of ['created_at', 'updated_at', 'next_run_date'])
          t.equal(new Date(cron[field] as string).toISOString(), cron[field], field)
        t.ok(Date.parse(cron.next_run_date!) > Date.parse(cron.created_at as string))
        await until(() => runs().length >= 3)
        await drop(cron)
        t.same((await http('GET', `/runs/crons/${cron.cron_id}`)).status, 404)
        for (const run of runs()) {
          t.match(run, {
            thread_id,
            status: 'success',
            metadata: { who: 'ada', cron_id: cron.cron_id, assistant_id, graph_id: 'counter' },
            kwargs: { input: { steps: 1 }, config: { tags: ['c'], configurable: { x: 1 } }, context: { y: 2 } },
          })
          t.notOk('cron_late' in run.metadata)
        }
        t.same(new Set(runs().map(run => run.run_id)).size, runs().length, 'each run once')
        const state = await client.threads.getState<{ numbers: number[] }>(thread_id)
        t.ok(state.values.numbers.length >= 3, 'all on the same thread')
      })

      await t.test('without a thread: each run has a thread, which is deleted or kept', async t => {
        const gone = hook()
        const kept = hook()
        const one = await make({ schedule: EVERY_SECOND, input: { text: 'a' }, webhook: gone.url })
        const other = await make({
          schedule: EVERY_SECOND,
          input: { text: 'b' },
          webhook: kept.url,
          onRunCompleted: 'keep',
        })
        t.match(one, { thread_id: null, on_run_completed: 'delete' })
        t.match(other, { thread_id: null, on_run_completed: 'keep' })
        await until(() => gone.runs().length >= 2 && kept.runs().length >= 2)
        await drop(one)
        await drop(other)
        for (const runs of [gone.runs(), kept.runs()])
          t.equal(new Set(runs.map(run => run.thread_id)).size, runs.length, 'a thread for each')
        const [run] = kept.runs()
        const thread = await client.threads.get(run!.thread_id)
        t.match(thread, {
          status: 'idle',
          values: { text: 'b', seen: 'b' },
          metadata: { cron_id: other.cron_id, graph_id: 'echo', assistant_id: other.assistant_id },
        })
        t.equal((await client.runs.get(run!.thread_id, run!.run_id)).status, 'success')
        const [temporary] = gone.runs()
        t.match(temporary, { values: { text: 'a', seen: 'a' } }, 'called before its thread is removed')
        t.equal((await http('GET', `/threads/${temporary!.thread_id}`)).status, 404)
      })

      await t.test('an end, a pause, a change', async t => {
        const { url, runs } = hook()
        const cron = await make({ schedule: EVERY_SECOND, webhook: url, enabled: false })
        t.match(cron, { enabled: false })
        const update = (patch: object) => change(cron, patch)
        const wait = () => new Promise(done => setTimeout(done, 2_100))
        await wait()
        t.equal(runs().length, 0, 'disabled: it never fires')
        const on = await update({ enabled: true, metadata: { a: 1 }, input: { text: 'first' } })
        t.ok(Date.parse(on.next_run_date!) > Date.parse(on.updated_at as string))
        t.ok((on.updated_at as string) > (cron.updated_at as string))
        await until(() => runs().length >= 1)
        const changed = await update({
          metadata: { b: 2 },
          input: { text: 'second' },
          schedule: RARELY,
          timezone: 'Asia/Tokyo',
        })
        t.match(changed, {
          schedule: RARELY,
          timezone: 'Asia/Tokyo',
          metadata: { a: 1, b: 2 },
          payload: { schedule: RARELY, input: { text: 'second' }, metadata: { a: 1, b: 2 }, webhook: url },
          next_run_date: /-12-31T15:00:00.000Z$/,
        })
        t.match(runs()[0], { kwargs: { input: { text: 'first' } }, metadata: { a: 1 } })
        const ended = await update({ endTime: new Date(Date.now() + MINUTE).toISOString() })
        t.equal(ended.next_run_date, null, 'no slot before its end')
        t.ok(ended.end_time)
        const open = await update({ endTime: null })
        t.equal(open.end_time, null, 'null clears it')
        t.match(open.next_run_date, /-12-31T15:00:00.000Z$/)
        t.same((await update({})).end_time, null)
        await drop(cron)
        const late = await make({ schedule: EVERY_SECOND, endTime: '2001-01-01T00:00:00' })
        t.match(late, { next_run_date: null, end_time: '2001-01-01T00:00:00.000Z' }, 'over before it began')
        await drop(late)
        const short = await make({
          schedule: EVERY_SECOND,
          endTime: new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 2_000).toISOString(),
          webhook: url,
        })
        const before = runs().length
        await until(async () => (await http('GET', `/runs/crons/${short.cron_id}`)).body.next_run_date === null)
        await until(() => runs().length > before)
        await wait()
        t.ok(runs().length - before <= 2, 'nothing at its end or later')
        t.equal((await http('GET', `/runs/crons/${short.cron_id}`)).status, 200, 'it stays')
        await drop(short)
      })

      await t.test('search and count', async t => {
        const mark = randomUUID()
        const { thread_id } = await client.threads.create()
        const common = { schedule: RARELY, metadata: { mark, list: ['a', 'b'] } }
        const made = [
          await make({ ...common, endTime: '2999-01-01' }),
          await make({ ...common, enabled: false }, 'counter'),
          await make({ ...common, schedule: '0 0 1 6 *' }, 'echo', thread_id),
        ]
        const ids = async (query: object) =>
          (await search({ metadata: { mark }, ...query })).map(({ cron_id }) =>
            made.findIndex(cron => cron.cron_id === cron_id),
          )
        t.same(await ids({}), [2, 1, 0], 'newest first')
        t.same(await ids({ sortBy: 'created_at', sortOrder: 'asc' }), [0, 1, 2])
        t.same(await ids({ limit: 1, offset: 1 }), [1])
        t.same(await ids({ assistantId: 'counter' }), [1])
        t.same(await ids({ assistantId: made[0]!.assistant_id }), [2, 0])
        t.same(await ids({ assistantId: randomUUID() }), [])
        t.same(await ids({ threadId: thread_id }), [2])
        t.same(await ids({ enabled: true }), [2, 0])
        t.same(await ids({ enabled: false }), [1])
        t.same(await ids({ metadata: { mark, list: ['b'] } }), [2, 1, 0])
        t.same(await ids({ metadata: { mark, list: ['c'] } }), [])
        t.same((await ids({ sortBy: 'next_run_date', sortOrder: 'asc' })).length, 3)
        t.same((await ids({ sortBy: 'end_time' }))[0], 0, 'without a value: last')
        t.same((await ids({ sortBy: 'thread_id', sortOrder: 'asc' }))[0], 2)
        t.equal(await count({ metadata: { mark } }), 3)
        t.equal(await count({ metadata: { mark }, assistantId: 'counter' }), 1)
        t.equal(await count({ threadId: thread_id }), 1)
        const [selected] = await search({ metadata: { mark }, limit: 1, select: ['cron_id', 'now'] })
        t.same(Object.keys(selected!), ['cron_id', 'now'])
        const fields = ['enabled', 'next_run_date', 'next_run_dates']
        const dated = (await wire('POST', '/runs/crons/search', { metadata: { mark }, select: fields })) as unknown as {
          enabled: boolean
          next_run_date: string | null
          next_run_dates: string[]
        }[]
        for (const { enabled, next_run_date, next_run_dates } of dated) {
          t.equal(next_run_dates.length, enabled && next_run_date !== null ? 5 : 0)
          if (enabled && next_run_date !== null) t.equal(next_run_dates[0], next_run_date)
          t.same(next_run_dates, [...new Set(next_run_dates)].sort(), 'in order, each once')
        }
        t.ok(dated.some(({ enabled }) => enabled))
        const page = await http('POST', '/runs/crons/search', { metadata: { mark }, limit: 2 })
        t.equal(page.headers.get('x-pagination-next'), '2')
        t.equal(page.headers.get('x-pagination-total'), '3')
        const last = await http('POST', '/runs/crons/search', { metadata: { mark }, limit: 2, offset: 2 })
        t.equal(last.headers.get('x-pagination-next'), null)
        t.equal(last.headers.get('x-pagination-total'), '3')
        t.same((await http('GET', `/runs/crons/${made[0]!.cron_id}`)).body, made[0])
        for (const cron of made) await drop(cron)
        t.equal(await count({ metadata: { mark } }), 0)
      })
    })
  }

  await t.test('a busy thread: rejected slots are skipped, other runs wait', async t => {
    const client = lines[0]!.connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const { url, runs } = hook()
    const busy = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
    const { body: cron } = await http('POST', `/threads/${thread_id}/runs/crons`, {
      assistant_id: 'echo',
      schedule: EVERY_SECOND,
      webhook: url,
      multitask_strategy: 'reject',
    })
    const isSkipped = (line: string) => line.includes(cron.cron_id) && line.includes('cron skipped')
    await until(() => cluster.output().split('\n').some(isSkipped))
    t.equal(runs().length, 0)
    await client.runs.cancel(thread_id, busy.run_id, true)
    await until(() => runs().length >= 1)
    t.equal(runs()[0]!.status, 'success', 'the next slot is taken again')
    const firings = async () => (await http('GET', `/runs/crons/${cron.cron_id}/firings`)).body as CronFiring[]
    const first = await until(async () => (await firings()).findLast(({ error }) => error === null))
    t.match(first, { run_id: runs()[0]!.run_id, thread_id, late: false, run_status: 'success' })
    t.match((await firings()).at(-1), { run_id: null, run_status: null, error: /already running/ }, 'oldest last')
    t.equal((await http('DELETE', `/runs/crons/${cron.cron_id}`)).status, 204)
  })

  await t.test('invalid requests are refused', async t => {
    const client = lines[0]!.connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const good = { assistant_id: 'echo', schedule: RARELY }
    const unknown = randomUUID()
    const paths = ['/runs/crons', `/threads/${thread_id}/runs/crons`]
    for (const path of paths) {
      for (const [body, says] of [
        [{ assistant_id: 'echo' }, /schedule: expected a text/],
        [{ schedule: RARELY }, /assistant_id: expected a text/],
        ...['x', '', '* * * *', '60 * * * *', '* * * * * * *', '@reboot', '0 0 30 2 *', '2030-01-01T00:00:00'].map(
          schedule => [{ ...good, schedule }, /^schedule: /],
        ),
        ...['Nowhere/Land', '', '+02:00', 'UTC+02:00'].map(timezone => [{ ...good, timezone }, /^timezone: /]),
        ...['tomorrow', '', '2026-02-30T00:00:00', '12'].map(end_time => [{ ...good, end_time }, /^end_time: /]),
        [{ ...good, end_time: 5 }, /^end_time: expected a text/],
        [{ ...good, webhook: '' }, /^webhook: /],
        [{ ...good, webhook: 'http://10.0.0.1/' }, /^webhook: /],
        [{ ...good, metadata: [] }, /^metadata: /],
        [{ ...good, config: 'x' }, /^config: /],
        [{ ...good, context: 'x' }, /^context: /],
        [{ ...good, enabled: 'yes' }, /^enabled: /],
        [{ ...good, multitask_strategy: 'other' }, /^multitask_strategy: /],
        [{ ...good, on_run_completed: 'other' }, /^on_run_completed: /],
        [{ ...good, stream_mode: 'other' }, /^stream_mode/],
        [{ ...good, durability: 'other' }, /^durability: /],
        [{ ...good, interrupt_before: 5 }, /^interrupt_before/],
      ] as [object, RegExp][])
        await refused(t, path, body, says)
      await refused(t, path, { ...good, assistant_id: 'nobody' }, /No assistant found/, 404)
      await refused(t, path, { ...good, assistant_id: unknown }, /No assistant found/, 404)
      await refused(t, path, '{"schedule"', /JSON/, 400)
    }
    await refused(t, paths[1]!, { ...good, input: 'text' }, /^input: /)
    await refused(t, `/threads/${unknown}/runs/crons`, good, /Thread with ID .* not found/, 404)
    await refused(t, '/threads/x/runs/crons', good, /thread_id must be a UUID/)
    for (const [method, path] of [
      ['GET', '/runs/crons/'],
      ['PATCH', '/runs/crons/'],
      ['DELETE', '/runs/crons/'],
    ] as const) {
      const body = method === 'PATCH' ? {} : undefined
      await refused(t, `${path}${unknown}`, body, /Cron with ID .* not found/, 404, method)
      await refused(t, `${path}x`, body, /cron_id must be a UUID/, 422, method)
    }
    const breakpoints = { interrupt_before: ['node'], interrupt_after: ['node'] }
    t.match(
      (await http('POST', paths[1]!, { ...good, ...breakpoints })).body.payload,
      breakpoints,
      'nodes of a thread cron',
    )
    const cron = (await http('POST', '/runs/crons', { ...good, interrupt_before: ['node'], input: [1] })).body
    t.match(cron.payload, { interrupt_before: ['node'], input: [1] }, 'without a thread lists and any input are taken')
    const path = `/runs/crons/${cron.cron_id}`
    await refused(t, path, { schedule: 'x' }, /^schedule: /, 422, 'PATCH')
    await refused(t, path, { timezone: 'x' }, /^timezone: /, 422, 'PATCH')
    await refused(t, path, { end_time: 'x' }, /^end_time: /, 422, 'PATCH')
    await refused(t, path, { webhook: 'http://10.0.0.1/' }, /^webhook: /, 422, 'PATCH')
    await refused(t, path, { enabled: 1 }, /^enabled: /, 422, 'PATCH')
    t.same((await http('GET', path)).body, cron, 'a refused change changes nothing')
    for (const body of [{ limit: 0 }, { limit: 1_001 }, { offset: -1 }, { sort_by: 'x' }, { sort_order: 'up' }])
      await refused(t, '/runs/crons/search', body, new RegExp(`^${Object.keys(body)[0]}: `))
    await refused(t, '/runs/crons/search', { select: ['x'] }, /^select/)
    await refused(t, '/runs/crons/search', { thread_id: 'x' }, /^thread_id: /)
    await refused(t, '/runs/crons/count', { metadata: 1 }, /^metadata: /)
    await http('DELETE', path)
  })
})
