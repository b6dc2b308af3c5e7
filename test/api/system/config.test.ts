/** The config of a run, merged from assistant, payload and thread: the table of docs/spec/runs.md#configuration. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import t from 'tap'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { lines } from '../../helpers/sdk.js'

interface SeenConfig {
  configurable: { [key: string]: unknown }
  context: unknown
  tags?: string[]
  metadata: { [key: string]: unknown }
  recursionLimit: number
}

const API_URL = 'https://agents.example/api'
const library = createRequire(import.meta.url).resolve('@langchain/langgraph')
const { version } = JSON.parse(readFileSync(join(dirname(library), '..', 'package.json'), 'utf8')) as {
  version: string
}
/** The metadata that an execution adds. */
const EXECUTION = {
  run_attempt: 1,
  langgraph_version: version,
  langgraph_plan: 'developer',
  langgraph_host: 'self-hosted',
  langgraph_api_url: API_URL,
}

let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/basic', env: { LANGGRAPH_API_URL: API_URL } })
})
t.teardown(() => cluster.stop())

t.test('a config that would hold up other runs is refused wherever it is given', async t => {
  const send = sender(cluster.url)
  const idOf = async (path: string, body: object) => Object.values((await send('POST', path, body)).body as object)[0]
  const wide = Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`member ${i}`, i]))
  const thread = `/threads/${await idOf('/threads', {})}`
  const assistant = `/assistants/${await idOf('/assistants', { graph_id: 'seen_config' })}`
  const cron = { assistant_id: 'seen_config', schedule: '0 0 1 1 *' }
  const run = { assistant_id: 'seen_config' }
  for (const [given, says] of [
    [{ config: { configurable: wide } }, /config\.configurable: expected at most 1000 members, got 1001/],
    [{ config: { metadata: wide } }, /config\.metadata: expected at most 1000 members/],
    [{ context: wide }, /context: expected at most 1000 members/],
    [{ config: { tags: Object.keys(wide) } }, /config\.tags: expected at most 1000 members/],
    [{ config: { configurable: { checkpoint_map: wide } } }, /checkpoint_map: expected at most 1000 members/],
    [{ config: { max_concurrency: 0 } }, /config\.max_concurrency: expected a number of at least 1, got 0/],
  ] as const) {
    for (const [method, path, body] of [
      ['POST', '/runs/wait', { ...run, ...given }],
      ['POST', `${thread}/runs`, { ...run, ...given }],
      ['POST', '/runs/batch', [{ ...run, ...given }]],
      ['POST', '/assistants', { graph_id: 'seen_config', ...given }],
      ['PATCH', assistant, given],
      ['POST', '/runs/crons', { ...cron, ...given }],
      ['PATCH', `/runs/crons/${await idOf('/runs/crons', cron)}`, given],
    ] as const)
      t.match(await send(method, path, body), { status: 422, body: { detail: says } }, `${method} ${path}`)
    if (!('config' in given)) continue
    const command = { id: 1, method: 'run.start', params: { ...run, ...given } }
    t.match((await send('POST', `${thread}/commands`, command)).body, { type: 'error', message: says })
  }
  const { 'member 0': _, ...most } = wide
  t.match(await send('POST', '/runs/wait', { ...run, input: {}, config: { configurable: most } }), { status: 200 })
})

for (const { name, connect } of lines)
  t.test(name, async t => {
    const client = connect(cluster.url)
    const assistant = async (given: object) =>
      (await client.assistants.create({ graphId: 'seen_config', ...given } as never)).assistant_id
    const seen_config = async (assistant_id: string, payload: object = {}, thread_id: string | null = null) => {
      const values = await client.runs.wait(thread_id as string, assistant_id, { input: { ask: 1 }, ...payload })
      return (values as { seen_config: SeenConfig }).seen_config
    }

    await t.test('config: the run overrides its assistant', async t => {
      const id = await assistant({
        config: { tags: ['a'], recursion_limit: 30, configurable: { x: 1, y: { deep: 1 } } },
      })
      const plain = await seen_config(id)
      t.match(plain, { recursionLimit: 30, configurable: { x: 1, y: { deep: 1 } } })
      t.ok(plain.tags?.includes('a'))
      const over = await seen_config(id, {
        config: { tags: ['r'], recursion_limit: 40, configurable: { y: { other: 2 }, z: null } },
      })
      t.match(over, { recursionLimit: 40, configurable: { x: 1, z: null } })
      t.same(over.configurable.y, { other: 2 }, 'key by key, not deeper')
      t.ok(over.tags?.includes('r') && !over.tags.includes('a'))
      t.equal((await seen_config('seen_config')).recursionLimit, 25, 'none is made up')
    })

    await t.test('configurable: selection, tracer and system keys override the request', async t => {
      const id = await assistant({ config: { configurable: { langsmith_project: 'a', graph_id: 'wrong' } } })
      const { thread_id } = await client.threads.create()
      const first = await seen_config(id, {}, thread_id)
      const { checkpoint } = await client.threads.getState(thread_id)
      const second = await seen_config(
        id,
        {
          checkpointId: checkpoint!.checkpoint_id,
          langsmithTracer: { project_name: 'mine', example_id: 'e' },
          config: {
            configurable: {
              thread_id: 'wrong',
              run_id: 'wrong',
              assistant_id: 'wrong',
              langgraph_auth_user: { identity: 'root' },
              langgraph_auth_user_id: 'root',
              langgraph_auth_permissions: ['all'],
              __pregel_resuming: true,
            },
          },
        },
        thread_id,
      )
      t.match(second.configurable, { thread_id, assistant_id: id, graph_id: 'seen_config' })
      t.match(second.configurable.run_id, /^[0-9a-f-]{36}$/)
      t.not(second.configurable.run_id, first.configurable.run_id)
      for (const key of ['langgraph_auth_user', 'langgraph_auth_user_id', 'langgraph_auth_permissions'])
        t.equal(second.configurable[key], undefined, `${key} is not the client's to set`)
      const run = await fetch(`${cluster.url}/runs/wait`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          assistant_id: id,
          input: {},
          langsmith_tracer: { project_name: 'mine', example_id: 'e' },
        }),
      })
      t.match(((await run.json()) as { seen_config: SeenConfig }).seen_config.configurable, {
        langsmith_project: 'mine',
        langsmith_example_id: 'e',
      })
    })

    await t.test('metadata: thread, assistant, run, system keys; the stored run has none of the thread', async t => {
      const id = await assistant({ metadata: { from: 'assistant', both: 'assistant' } })
      const ofThread = { of: 'thread', both: 'thread', run_attempt: 9, langgraph_auth_user_id: 'root' }
      const { thread_id } = await client.threads.create({ metadata: ofThread })
      const payload = { metadata: { both: 'run', run_id: 'wrong', graph_id: 'wrong' } }
      const { metadata } = await seen_config(id, payload, thread_id)
      t.match(metadata, {
        from: 'assistant',
        both: 'run',
        assistant_id: id,
        graph_id: 'seen_config',
        thread_id,
        run_attempt: 1,
      })
      t.equal(metadata.of, 'thread')
      t.equal(metadata.langgraph_auth_user_id, undefined, 'a thread names no caller')
      const [state] = await client.threads.getHistory(thread_id)
      t.match(state!.metadata, { of: 'thread', both: 'run' }, 'and with it its checkpoints')
      const [run] = await client.runs.list(thread_id)
      t.equal(run!.metadata!.of, undefined)
      t.match(run!.metadata, {
        from: 'assistant',
        both: 'run',
        assistant_id: id,
        graph_id: 'seen_config',
        run_id: run!.run_id,
      })
      t.same((run as never as { kwargs: { config: { metadata: object } } }).kwargs.config.metadata, run!.metadata)
      const thread = await client.threads.get(thread_id)
      t.match(thread.metadata, { of: 'thread', graph_id: 'seen_config', assistant_id: id })
      t.equal(thread.metadata!.from, undefined, 'and nothing of the run but who ran')
    })

    await t.test('metadata: keys of the execution override the client', async t => {
      const { thread_id } = await client.threads.create()
      const mine = { langgraph_plan: 'mine', langgraph_version: '0', run_attempt: 9 }
      const { metadata } = await seen_config('seen_config', { metadata: mine, config: { metadata: mine } }, thread_id)
      t.match(metadata, EXECUTION)
      const [state] = await client.threads.getHistory(thread_id)
      t.match(state!.metadata, EXECUTION, 'and with it its checkpoints')
      const tuples: [unknown, object][] = []
      const input = { messages: [{ role: 'user', content: 'hi' }] }
      for await (const { event, data } of client.runs.stream(null, 'model', { input, streamMode: 'messages-tuple' }))
        if (event === 'messages') tuples.push(data as never)
      t.ok(tuples.length > 0)
      for (const [, metadata] of tuples) t.match(metadata, { ...EXECUTION, langgraph_node: 'node' }, 'and its tokens')
    })

    await t.test('context: the run overrides its assistant, beside configurable', async t => {
      const id = await assistant({ context: { a: 1, b: { deep: 1 } } })
      t.same((await seen_config(id)).context, { a: 1, b: { deep: 1 } })
      t.same((await seen_config(id, { context: { b: 2, c: 3 } })).context, { a: 1, b: 2, c: 3 })
      const both = await seen_config(id, { config: { configurable: { d: 2 } } })
      t.same(both.context, { a: 1, b: { deep: 1 } })
      t.match(both.configurable, { d: 2, a: undefined }, 'each in its own place')
      const refused = await seen_config('seen_config', { context: 'text' }).catch((error: unknown) => error)
      t.match(refused, { status: 422 })
    })

    await t.test('runs do not share their configurable', async t => {
      const { thread_id } = await client.threads.create()
      await seen_config('seen_config', { config: { configurable: { mine: 1 } } }, thread_id)
      t.equal((await seen_config('seen_config', {}, thread_id)).configurable.mine, undefined)
      t.same((await client.threads.get(thread_id)).config ?? {}, {})
      t.equal((await seen_config('seen_config', {})).configurable['x-api-key'], undefined)
    })

    await t.test('unknown members are ignored', async t => {
      t.ok(await seen_config('seen_config', { streamProtocol: 'none', unknown: { x: [1] } }))
      const response = await fetch(`${cluster.url}/runs/wait`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-something': 'else' },
        body: JSON.stringify({
          assistant_id: 'seen_config',
          input: {},
          assistantId: 'x',
          unknown: { __proto__: 1 },
          config: { odd: [1] },
        }),
      })
      const { configurable } = ((await response.json()) as { seen_config: SeenConfig }).seen_config
      t.equal(response.status, 200)
      t.equal(configurable['x-something'], undefined, 'no header becomes configurable')
    })
  })

t.test('where a run starts', async t => {
  for (const { name, connect } of lines)
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const { thread_id } = await client.threads.create()
      const run = (payload: object) => client.runs.wait(thread_id, 'counter', payload) as Promise<{ numbers: number[] }>
      const head = async () => (await client.threads.getState(thread_id)).checkpoint!
      await run({ input: { steps: 1 } })
      const one = await head()
      await run({ input: { steps: 3 } })
      const three = await head()
      t.match(await run({ input: { steps: 2 }, checkpoint: { checkpoint_id: one.checkpoint_id } }), { numbers: [1, 2] })
      const fork = await client.threads.getState(thread_id)
      t.match(fork.values, { numbers: [1, 2] }, 'the fork is the newest')
      t.match(await run({ input: { steps: 4 }, checkpointId: three.checkpoint_id }), { numbers: [1, 2, 3, 4] })
      const payload = { input: { steps: 2 }, checkpointId: three.checkpoint_id }
      t.match(
        await run({ ...payload, checkpoint: { checkpoint_id: one.checkpoint_id, checkpoint_ns: '', thread_id: 'x' } }),
        { numbers: [1, 2] },
        'checkpoint wins over checkpoint_id; its thread_id says nothing',
      )
      const known = await head()
      t.match(
        await run({ input: { steps: 3 }, checkpoint: { checkpoint_id: known.checkpoint_id, checkpoint_ns: '' } }),
        { numbers: [1, 2, 3] },
        'the newest is no choice',
      )
      t.match(await run({ input: { steps: 4 } }), { numbers: [1, 2, 3, 4] }, 'a choice is of one run alone')
      t.match(
        await run({ input: null, checkpoint: { checkpoint_id: one.checkpoint_id } }),
        { numbers: [1] },
        'a replay',
      )
      const unknown = '1f1e57bf-5565-6551-8001-3f511585a126'
      await t.rejects(run({ input: {}, checkpoint: { checkpoint_id: unknown } }), /HTTP 404/)
    })
})
