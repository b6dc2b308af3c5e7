/** Two applications in one Weft: the resources of one do not exist in the other. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ROUTES } from '../../edge/routes.js'
import { startRoles } from '../helpers/cluster.js'
import { linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'

const send = async (url: string, body?: unknown, headers: { [name: string]: string } = {}, method = 'POST') => {
  const given = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(url, { method, headers: { 'content-type': 'application/json', ...headers }, ...given })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, body: text === '' ? null : JSON.parse(text) }
}

t.setTimeout(120_000)
t.test('a second application below its prefix', async t => {
  const roles = await startRoles({ app: 'test/apps/basic' })
  t.teardown(() => roles.stop())
  await roles.add('graphs', ['--app', 'test/apps/other', '--app-id', 'second'])
  const first = roles.urls[0]!
  const second = `${first}/deployments/second`

  const info = await send(`${second}/info`, undefined, {}, 'GET')
  t.match([info.status, info.body], [200, { context: 'js', langgraph_js_version: /^1\./ }])
  t.equal((await send(`${first}/deployments/third/info`, undefined, {}, 'GET')).status, 404)
  const { servers, paths } = (await send(`${second}/openapi.json`, undefined, {}, 'GET')).body as {
    servers: object[]
    paths: object
  }
  t.same(servers, [{ url: '/deployments/second' }])
  t.notOk(Object.keys(paths).some(path => path.startsWith('/v2/')))

  for (const { name, connect } of linesOnStore) {
    await t.test(`${name} with the prefix in its base URL`, async t => {
      const client = connect(second)
      const thread = await client.threads.create({ metadata: { mine: true } })
      const input = { text: 'hello' }
      t.match(await client.runs.wait(thread.thread_id, 'echo', { input }), { seen: 'other hello' })
      t.match(await connect(first).runs.wait(null, 'echo', { input }), { seen: 'hello' })
      t.match((await client.threads.getState(thread.thread_id)).values, { seen: 'other hello' })
      t.match(await client.runs.wait(null, 'only', { input }), { seen: 'other hello' })

      const mine = await client.assistants.create({ graphId: 'only', name: 'Mine' })
      t.equal((await client.assistants.get(mine.assistant_id)).name, 'Mine')
      t.equal(
        (await client.assistants.get('echo')).assistant_id,
        (await connect(first).assistants.get('echo')).assistant_id,
      )

      let created: unknown
      const streamed: unknown[] = []
      for await (const part of client.runs.stream(thread.thread_id, 'slow', {
        input: { count: 3 },
        streamMode: 'custom',
        onRunCreated: run => void (created = run),
      }))
        streamed.push(part.data)
      t.match(created, { thread_id: thread.thread_id, run_id: /^[0-9a-f-]{36}$/ })
      t.same(streamed.slice(1), [{ i: 0 }, { i: 1 }, { i: 2 }])
      const run = await client.runs.create(thread.thread_id, 'slow', { input: { count: 2 } })
      t.match(await client.runs.join(thread.thread_id, run.run_id), { done: 2 })
      t.equal((await client.runs.get(thread.thread_id, run.run_id)).status, 'success')
      const long = await client.runs.create(thread.thread_id, 'slow', { input: { count: 2_000 } })
      await client.runs.cancel(thread.thread_id, long.run_id, true)
      t.equal((await client.runs.get(thread.thread_id, long.run_id)).status, 'interrupted')
    })
  }

  await t.test('X-Deployment-Id selects the application', async t => {
    const body = { assistant_id: 'echo', input: { text: 'x' } }
    t.match((await send(`${first}/runs/wait`, body, { 'x-deployment-id': 'second' })).body, { seen: 'other x' })
    t.match(await send(`${first}/runs/wait`, body, { 'x-deployment-id': 'none' }), { status: 404 })
    for (const name of ['sec/ond', '../second', 'x'.repeat(65)])
      t.match(
        await send(`${first}/runs/wait`, body, { 'x-deployment-id': name }),
        { status: 422, body: { detail: /^X-Deployment-Id: expected/ } },
        'never answered by the built-in application',
      )
  })

  await t.test('paths in headers are relative to the base URL of the client', async t => {
    const made = await send(`${second}/runs/wait`, { assistant_id: 'echo', input: {} })
    t.match(made.headers.get('content-location'), /^\/runs\/[0-9a-f-]{36}$/)
    t.match(made.headers.get('location'), /^\/runs\/[0-9a-f-]{36}\/join$/)
    const again = await send(`${second}${made.headers.get('location')}`, undefined, {}, 'GET')
    t.match(again, { status: 200, body: { seen: 'other undefined' } })
  })

  await t.test('a dropped stream is joined again below the prefix', async t => {
    const request = {
      assistant_id: 'slow',
      input: { count: 20 },
      stream_mode: 'custom',
      stream_resumable: true,
      on_disconnect: 'continue',
    }
    const part = await readStream(`${second}/runs/stream`, { method: 'POST', body: request, stopAfter: 4 })
    const path = part.headers.get('location')!
    const headers = { 'last-event-id': `${part.frames.at(-1)!.id}` }
    const rest = await readStream(`${second}${path}`, { headers })
    t.same(
      [...part.frames, ...rest.frames].map(frame => frame.id),
      Array.from({ length: 21 }, (_, i) => i),
    )
    await t.rejects(readStream(`${first}${path}`, { headers }), /HTTP 404/, 'the other application has no such run')
  })

  await t.test('ids of the other application are unknown', async t => {
    const thread_id = (await send(`${second}/threads`, {})).body.thread_id as string
    const run = (await send(`${second}/threads/${thread_id}/runs`, { assistant_id: 'slow', input: { count: 500 } }))
      .body
    const assistant_id = (await send(`${second}/assistants`, { graph_id: 'only' })).body.assistant_id as string
    const cron = { assistant_id: 'echo', schedule: '0 0 1 1 *' }
    const cron_id = (await send(`${second}/runs/crons`, cron)).body.cron_id as string
    const ids: { [name: string]: string } = {
      thread_id,
      run_id: run.run_id,
      assistant_id,
      cron_id,
      checkpoint_id: run.run_id,
    }
    const bodies: { [route: string]: object } = {
      'PATCH /threads/:thread_id': { metadata: {} },
      'POST /threads/:thread_id/state': { values: {} },
      'PATCH /threads/:thread_id/state': { metadata: {} },
      'POST /threads/:thread_id/state/checkpoint': { checkpoint: { checkpoint_id: run.run_id } },
      'POST /threads/:thread_id/runs/crons': cron,
      'PATCH /runs/crons/:cron_id': { enabled: false },
      'POST /assistants/:assistant_id/latest': { version: 1 },
      'POST /ui/:assistant_id': { name: 'x' },
      'POST /a2a/:assistant_id': { jsonrpc: '2.0', id: 1, method: 'tasks/get' },
    }
    for (const prefix of ['runs', 'runs/stream', 'runs/wait'])
      bodies[`POST /threads/:thread_id/${prefix}`] = { assistant_id: 'echo' }
    for (const { method, path, params, control, answer } of ROUTES) {
      // Protocol v2 answers 200 where there is no thread: below.
      if (
        control ||
        answer.startsWith('oauth-') ||
        params.length === 0 ||
        answer === 'command' ||
        answer === 'events' ||
        answer === 'socket'
      )
        continue
      const at = path.replace(/:(\w+)/g, (_, name: string) => ids[name]!)
      const body = method === 'GET' ? undefined : (bodies[`${method} ${path}`] ?? {})
      t.equal((await send(`${first}${at}`, body, {}, method)).status, 404, `${method} ${path}`)
    }
    t.equal((await send(`${second}/runs/crons/${cron_id}`, undefined, {}, 'GET')).status, 200)
    t.equal((await send(`${first}/assistants/00000000-0000-4000-8000-000000000000`, undefined, {}, 'GET')).status, 404)
    for (const path of ['/threads/search', '/runs/crons/search', '/threads/count', '/runs/crons/count']) {
      const found = JSON.stringify((await send(`${first}${path}`, { limit: 1000 })).body)
      t.notOk(found.includes(thread_id) || found.includes(cron_id), path)
      if (path.endsWith('count')) t.not(found, (await send(`${second}${path}`, {})).body, path)
    }
    t.equal((await send(`${first}/threads/${thread_id}/runs/${run.run_id}/cancel`)).status, 404)
    t.equal((await send(`${first}/threads/${thread_id}/runs`, { assistant_id: 'echo' })).status, 404)
    t.equal((await send(`${first}/runs`, { assistant_id: 'only' })).status, 404, 'a graph of the other application')
    const taken = { assistant_id: 'echo', if_not_exists: 'create' }
    t.equal((await send(`${first}/threads/${thread_id}/runs`, taken)).status, 409, 'its thread id is taken')
    t.equal((await send(`${first}/threads`, { thread_id, if_exists: 'do_nothing' })).status, 409)
    t.equal((await send(`${second}/threads/${thread_id}/runs/${run.run_id}/cancel?wait=1`)).status, 204)
  })

  await t.test('an event stream receives no events of a thread of the other application', async t => {
    const thread_id = randomUUID()
    const subscribe = (base: string) => {
      const frames: string[] = []
      const stop = new AbortController()
      const opened = fetch(`${base}/threads/${thread_id}/stream/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ channels: ['values', 'custom', 'lifecycle'] }),
        signal: stop.signal,
      }).then(answer => {
        t.equal(answer.status, 200)
        const read = async () => {
          const decoder = new TextDecoder()
          for await (const bytes of answer.body!)
            frames.push(
              ...decoder
                .decode(bytes as Uint8Array)
                .split('\n')
                .filter(line => line.startsWith('data:')),
            )
        }
        read().catch(() => {})
      })
      return { frames, opened, stop: () => stop.abort() }
    }
    const [other, own] = [subscribe(first), subscribe(second)]
    await Promise.all([other.opened, own.opened])
    const params = { assistant_id: 'slow', input: { count: 3 } }
    const command = { id: 1, method: 'run.start', params }
    t.match(await send(`${second}/threads/${thread_id}/commands`, command), { status: 200, body: { type: 'success' } })
    while (!own.frames.some(line => line.includes('completed'))) await sleep(20)
    await sleep(500)
    t.same(other.frames, [])
    t.match(await send(`${first}/threads/${thread_id}/commands`, command), { body: { type: 'error' } })
    t.match(await send(`${first}/threads/${thread_id}/commands`, { id: 2, method: 'state.get', params: {} }), {
      body: { type: 'error' },
    })
    for (const each of [other, own]) each.stop()
  })

  await t.test('an unknown deployment', async t => {
    for (const path of [
      '',
      '/',
      '/ok',
      '/ready',
      '/info',
      '/threads/0198f2a5-0000-7000-8000-000000000000',
      '/assistants/echo',
    ])
      t.equal((await send(`${first}/deployments/none${path}`, undefined, {}, 'GET')).status, 404, path)
    t.equal((await send(`${first}/deployments/built-in/ok`, undefined, {}, 'GET')).status, 404)
    t.equal((await send(`${first}/deployments/none/runs`, { assistant_id: 'echo' })).status, 404)
    t.equal((await send(`${first}/deployments`, undefined, {}, 'GET')).status, 404)
    for (const path of ['', '/', '/ok', '/ready', '/info'])
      t.equal((await send(`${second}${path}`, undefined, {}, 'GET')).status, 200, path)
  })

  await t.test('a run continues with another worker of its application', async t => {
    const thread_id = (await send(`${second}/threads`, {})).body.thread_id as string
    const body = { assistant_id: 'slow', input: { count: 150 } }
    const run = (await send(`${second}/threads/${thread_id}/runs`, body)).body
    while (
      (await send(`${second}/threads/${thread_id}/runs/${run.run_id}`, undefined, {}, 'GET')).body.status !== 'running'
    )
      await sleep(20)
    await roles.add('graphs', ['--app', 'test/apps/other', '--app-id', 'second'])
    await roles.added[0]!.stop()
    const joined = await send(`${second}/threads/${thread_id}/runs/${run.run_id}/join`, undefined, {}, 'GET')
    t.match(joined.body, { done: 150 })
  })

  await t.test('a worker of the pool that has not loaded the graph gives the run back', async t => {
    const wrong = await roles.add('graphs', ['--app', 'test/apps/faults', '--app-id', 'second'])
    const isGivenBack = () => wrong.output().includes('needs a graph that is not loaded here')
    const inputs = Array.from({ length: 40 }, (_, n) => `${n}`)
    // It offers its slots within a second: until then the other worker may take all runs.
    while (!isGivenBack()) {
      const answers = await Promise.all(
        inputs.map(text => send(`${second}/runs/wait`, { assistant_id: 'only', input: { text } })),
      )
      t.same(
        answers.map(({ status, body }) => [status, body.text]),
        inputs.map(text => [200, text]),
        'each run succeeds in the other worker',
      )
    }
  })
})
