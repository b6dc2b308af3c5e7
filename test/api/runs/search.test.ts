/** Searches and counts over all runs: conditions, pages, the error of a failed run, and what a user sees. */
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { callerOf } from '../auth/caller-rows.js'

t.setTimeout(180_000)
type Run = {
  run_id: string
  thread_id: string
  assistant_id: string
  status: string
  created_at: string
  metadata: { [key: string]: unknown }
  kwargs?: object
  error?: { error: string; message: string }
}
const ids = (body: unknown) => (body as Run[]).map(({ run_id }) => run_id)
const NEXT = 'x-pagination-next'

t.test('one application', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  const search = async (body: object) => {
    const answer = await send('POST', '/runs/search', { limit: 100, ...body })
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
    return answer.body as Run[]
  }
  const count = async (body: object) => (await send('POST', '/runs/count', body)).body as number
  /** The run itself, ended. */
  const made = async (path: string, body: object): Promise<Run> => {
    const { run_id } = (await send('POST', path, body)).body as Run
    await send('GET', `/runs/${run_id}/join`)
    const [run] = (await search({})).filter(run => run.run_id === run_id)
    return run!
  }

  t.same(await search({}), [], 'nothing has run')
  t.equal(await count({}), 0)
  const { body: thread } = await send('POST', '/threads', {})
  const { thread_id } = thread as Run
  const own = (await send('POST', '/assistants', { graph_id: 'fail', name: 'mine' })).body as Run
  const runs = [
    await made(`/threads/${thread_id}/runs`, { assistant_id: 'echo', input: {}, metadata: { n: 1, kind: 'good' } }),
    await made(`/threads/${thread_id}/runs`, {
      assistant_id: 'fail',
      input: { message: 'Connection refused by the model' },
      metadata: { n: 2, kind: 'bad' },
    }),
    await made('/runs', { assistant_id: own.assistant_id, input: { message: 'no such tool' }, metadata: { n: 3 } }),
    await made('/runs', { assistant_id: 'echo', input: {}, metadata: { n: 4, kind: 'good' } }),
  ]
  const [first, refused, stateless, last] = runs as [Run, Run, Run, Run]

  await t.test('every run is found, and a failed one says why', async t => {
    t.same(ids(await search({})), ids([last, stateless, refused, first]), 'newest first')
    t.same(ids(await search({ sort_order: 'asc' })), ids(runs))
    const error = { error: 'TooBadError', message: 'Connection refused by the model' }
    t.match(refused, { status: 'error', error, thread_id, metadata: { graph_id: 'fail', n: 2 } })
    t.equal('error' in first, false)
    const { body } = await send('GET', `/threads/${thread_id}/runs/${refused.run_id}`)
    t.same(body, refused, 'as the run itself')
    t.same(((await send('GET', `/threads/${thread_id}/runs`)).body as Run[])[0], refused, 'as the list of its thread')
    t.same(await search({ select: ['run_id', 'error'], status: 'error', limit: 1, sort_order: 'asc' }), [
      { run_id: refused.run_id, error: refused.error },
    ])
  })

  await t.test('each condition, alone and with others; the count is that of the search', async t => {
    const cases: [object, Run[]][] = [
      [{ status: 'error' }, [stateless, refused]],
      [{ status: ['error', 'success'] }, [last, stateless, refused, first]],
      [{ status: [] }, [last, stateless, refused, first]],
      [{ status: 'pending' }, []],
      [{ graph_id: 'echo' }, [last, first]],
      [{ graph_id: 'none' }, []],
      [{ assistant_id: own.assistant_id }, [stateless]],
      [{ assistant_id: own.assistant_id.toUpperCase() }, [stateless]],
      [{ assistant_id: 'fail' }, [refused]],
      [{ thread_id }, [refused, first]],
      [{ with_thread: true }, [refused, first]],
      [{ with_thread: false }, [last, stateless]],
      [{ key_id: 'none' }, []],
      [{ metadata: { kind: 'good' } }, [last, first]],
      [{ metadata: {} }, [last, stateless, refused, first]],
      [{ text: 'REFUSED by' }, [refused]],
      [{ text: 'toobaderror' }, [stateless, refused]],
      [{ text: 'refused', status: 'success' }, []],
      [{ created_after: refused.created_at, created_before: last.created_at }, [stateless, refused]],
      [{ created_after: last.created_at }, [last]],
      [{ created_before: first.created_at }, []],
      [{ status: 'error', with_thread: false, graph_id: 'fail', text: 'tool', metadata: { n: 3 } }, [stateless]],
    ]
    for (const [body, wanted] of cases) {
      t.same(ids(await search(body)), ids(wanted), JSON.stringify(body))
      t.equal(await count(body), wanted.length, `count ${JSON.stringify(body)}`)
    }
  })

  await t.test('pages follow the header, with each kind of condition', async t => {
    for (const body of [
      {},
      { status: ['success', 'error'] },
      { metadata: { n: 4 } },
      { text: 'o', sort_order: 'asc' },
    ]) {
      const found: string[] = []
      for (let cursor: string | null = null, pages = 0; pages < 10; pages++) {
        const answer = await send('POST', '/runs/search', { ...body, limit: 1, ...(cursor === null ? {} : { cursor }) })
        found.push(...ids(answer.body))
        cursor = answer.headers.get(NEXT)
        if (cursor === null) break
      }
      t.same(found, ids(await search(body)), JSON.stringify(body))
    }
    const all = await send('POST', '/runs/search')
    t.same([all.status, ids(all.body).length, all.headers.get(NEXT)], [200, 4, null], 'without a body')
  })

  await t.test('where and when a run executed', async t => {
    const traced = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' }
    const { run_id } = (await send('POST', '/runs', { assistant_id: 'echo', input: {} }, traced)).body as Run
    await send('GET', `/runs/${run_id}/join`)
    for (const [id, trace_id] of [
      [run_id, '0af7651916cd43dd8448eb211c80319c'],
      [refused.run_id, null],
    ] as const) {
      const { status, body } = await send('GET', `/runs/${id}/execution`)
      const { worker, started_at, ended_at, ...rest } = body as { [member: string]: string }
      t.equal(status, 200)
      t.same(rest, { run_id: id, attempt: 1, pool: 'default', trace_id, waits_for: null })
      t.match(worker, /^default-/)
      t.ok(refused.created_at <= started_at! && started_at! <= ended_at!, 'created, started, ended')
    }
    const later = (await send('POST', '/runs', { assistant_id: 'echo', input: {}, after_seconds: 3_600 })).body as Run
    const { body } = await send('GET', `/runs/${later.run_id}/execution`)
    t.match(body, { attempt: 0, worker: null, started_at: null, ended_at: null })
    await send('POST', `/threads/${later.thread_id}/runs/${later.run_id}/cancel?wait=true`)
    t.equal((await send('GET', '/runs/00000000-0000-4000-8000-000000000000/execution')).status, 404)
  })

  await t.test('what is wrong is refused', async t => {
    for (const [body, sentence] of [
      [{ status: 'done' }, /status/],
      [{ limit: 0 }, /limit/],
      [{ limit: 1_001 }, /limit/],
      [{ cursor: '12' }, /cursor/],
      [{ created_after: 'yesterday' }, /created_after/],
      [{ thread_id: 'x' }, /thread_id/],
      [{ select: ['token'] }, /select/],
    ] as const) {
      const { status, body: answer } = await send('POST', '/runs/search', body)
      t.equal(status, 422, JSON.stringify(body))
      t.match(JSON.stringify(answer), sentence)
    }
  })
})

t.test('a user finds the runs of their threads, and their runs without a thread', async t => {
  const cluster = await startCluster({ app: 'test/apps/auth' })
  t.teardown(() => cluster.stop())
  const { as, send, threadOf } = callerOf(cluster.url)
  const own: { [user: string]: string[] } = {}
  for (const user of ['alice', 'bob', 'alice']) {
    const thread_id = await threadOf(user)
    for (const path of [`/threads/${thread_id}/runs`, '/runs']) {
      const { run_id } = (await as(user, 'POST', path, { assistant_id: 'echo', input: {}, metadata: { of: user } }))
        .body as Run
      await as(user, 'GET', `/runs/${run_id}/join`)
      ;(own[user] ??= []).unshift(run_id)
    }
  }
  const filters = [{}, { status: 'success' }, { graph_id: 'echo' }, { metadata: { graph_id: 'echo' } }]
  for (const user of ['alice', 'bob', 'carol'])
    for (const filter of filters) {
      const wanted = own[user] ?? []
      const text = `${user} ${JSON.stringify(filter)}`
      t.same(ids((await as(user, 'POST', '/runs/search', filter)).body), wanted, text)
      t.equal((await as(user, 'POST', '/runs/count', filter)).body, wanted.length, `count ${text}`)
    }
  const [run_id] = own.alice!
  const execution = `/runs/${run_id}/execution`
  t.match(await as('alice', 'GET', execution), { status: 200, body: { run_id, attempt: 1, worker: null } })
  t.equal((await as('bob', 'GET', `/runs/${own.alice!.at(-1)}/execution`)).status, 404)
  const stolen = await as('bob', 'POST', '/runs/search', { metadata: { of: 'alice' } })
  t.same(stolen.body, [], 'the metadata of a run opens nothing')
  for (const path of ['/runs/search', '/runs/count']) {
    t.equal((await send('POST', path, {})).status, 401, 'nobody')
    t.equal((await as('alice', 'POST', path, {}, 'deny threads:search')).status, 403, 'a handler that denies')
    t.equal((await as('alice', 'POST', path, {}, 'handler:throw')).status, 500)
  }
})
