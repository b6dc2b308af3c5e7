/** Single sentences of the API that no other test covers, requested without an SDK. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'

t.setTimeout(60_000)

let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_CONFIGURABLE_HEADERS: 'x-*,user-agent' } })
})
t.teardown(() => cluster?.stop())

type Body = { [name: string]: never }
async function ask(method: string, path: string, body?: unknown, headers: { [name: string]: string } = {}) {
  const json: { [name: string]: string } = body === undefined ? {} : { 'content-type': 'application/json' }
  const response = await fetch(`${cluster.url}${path}`, {
    method,
    headers: { ...json, ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (text === '' ? null : JSON.parse(text)) as Body,
  }
}
const newThread = async (body: object = {}): Promise<string> => (await ask('POST', '/threads', body)).body.thread_id!
const wait = (thread: string | null, assistant_id: string, more: object = {}) =>
  ask('POST', `${thread === null ? '' : `/threads/${thread}`}/runs/wait`, { assistant_id, ...more })

t.test('1: null means absent for optional members; text/plain bodies; ids in capitals', async t => {
  const names = 'metadata config context checkpoint checkpoint_id interrupt_before interrupt_after stream_mode'
  const more = 'stream_subgraphs stream_resumable feedback_keys webhook multitask_strategy if_not_exists on_disconnect'
  const rest = 'on_completion after_seconds durability checkpoint_during langsmith_tracer command'
  const nulls = Object.fromEntries(`${names} ${more} ${rest}`.split(' ').map(name => [name, null]))
  t.match(await wait(null, 'echo', { input: { text: 'a' }, ...nulls }), { status: 200, body: { seen: 'a' } })
  const searched = 'ids metadata values status limit offset sort_by sort_order select extract'.split(' ')
  t.equal((await ask('POST', '/threads/search', Object.fromEntries(searched.map(name => [name, null])))).status, 200)
  const made = { thread_id: null, metadata: null, if_exists: null, ttl: null, supersteps: null }
  t.match(await ask('POST', '/threads', made), { status: 200, body: { metadata: {} } })
  const id = randomUUID()
  const text = JSON.stringify({ thread_id: id.toUpperCase() })
  const plain = await ask('POST', '/threads', text, { 'content-type': 'text/plain;charset=UTF-8' })
  t.match(plain, { status: 200, body: { thread_id: id } })
  t.equal((await ask('GET', `/threads/${id.toUpperCase()}`)).body.thread_id, id)
  t.match(await wait(id.toUpperCase(), 'echo', { input: { text: 'b' } }), { status: 200, body: { seen: 'b' } })
})

t.test('1: ids in other spellings name the same things', async t => {
  const spellings = (id: string) => [id.toUpperCase(), id.replaceAll('-', ''), `{${id}}`, `urn:uuid:${id}`]
  for (const [i] of spellings('').entries()) {
    const id = randomUUID()
    const spelled = spellings(id)[i]!
    t.match(await ask('POST', '/threads', { thread_id: spelled }), { status: 200, body: { thread_id: id } }, spelled)
    const path = `/threads/${encodeURIComponent(spelled)}`
    const run = (await ask('POST', `${path}/runs`, { assistant_id: 'echo', input: { text: 'a' } })).body
      .run_id as never as string
    t.match(await ask('GET', `${path}/runs/${encodeURIComponent(spellings(run)[i]!)}/join`), { body: { seen: 'a' } })
    t.match(await ask('POST', '/threads/search', { ids: [spelled] }), { body: [{ thread_id: id }] })
    const [assistant] = (await ask('POST', '/assistants/search', { graph_id: 'echo' })).body as unknown as Body[]
    const named = spellings(assistant!.assistant_id as never as string)[i]!
    t.match(await ask('GET', `/assistants/${encodeURIComponent(named)}`), { body: { graph_id: 'echo' } })
    t.match(await wait(null, named, { input: { text: 'b' } }), { body: { seen: 'b' } })
    t.match(await ask('POST', '/threads/prune', { thread_ids: [spelled] }), { body: { pruned_count: 1 } })
  }
})

t.test('1: response headers that a web page may read', async t => {
  const { headers } = await ask('POST', '/threads/search', {}, { origin: 'https://page.example' })
  const exposed = headers.get('access-control-expose-headers')?.toLowerCase().split(/, */)
  for (const name of ['content-location', 'location', 'x-pagination-total', 'x-pagination-next'])
    t.ok(exposed?.includes(name), name)
  t.equal(headers.get('access-control-allow-origin'), '*')
  t.equal(headers.get('access-control-allow-credentials'), null)
})

t.test('3: an interrupt has id and value in every answer', async t => {
  const thread = await newThread()
  const interrupt = { id: String, value: { question: 'why?' } }
  const onlyThese = (found: unknown, where: string) => {
    t.match(found, [interrupt], where)
    t.same(Object.keys((found as object[])[0]!).toSorted(), ['id', 'value'], where)
  }
  const modes = ['values', 'updates', 'tasks', 'checkpoints', 'debug']
  const body = { assistant_id: 'ask', input: {}, stream_mode: modes }
  const { frames } = await readStream(`${cluster.url}/threads/${thread}/runs/stream`, { method: 'POST', body })
  const eventsOf = (event: string) => frames.filter(frame => frame.event === event).map(frame => JSON.parse(frame.data))
  onlyThese(eventsOf('values').at(-1).__interrupt__, 'values')
  onlyThese(eventsOf('updates').at(-1).__interrupt__, 'updates')
  onlyThese(eventsOf('tasks').at(-1).interrupts, 'tasks')
  onlyThese(eventsOf('debug').findLast(({ type }) => type === 'task_result').payload.interrupts, 'debug')
  const state = (await ask('GET', `/threads/${thread}/state`)).body as unknown as { tasks: Body[]; interrupts: unknown }
  onlyThese(state.interrupts, 'state')
  onlyThese(state.tasks[0]!.interrupts, 'task')
  const shown = (await ask('GET', `/threads/${thread}`)).body as unknown as { interrupts: object; status: string }
  onlyThese(Object.values(shown.interrupts)[0], 'thread')
  t.equal(shown.status, 'interrupted')
  const [run] = (await ask('GET', `/threads/${thread}/runs`)).body as unknown as Body[]
  t.equal(run!.status, 'success', 'the run itself has succeeded')
  const joined = await ask('GET', `/threads/${thread}/runs/${run!.run_id}/join`)
  onlyThese(joined.body.__interrupt__, 'join')
  onlyThese((await wait(await newThread(), 'ask', { input: {} })).body.__interrupt__, 'wait')
})

t.test('3: several interrupts are answered by their ids; new input discards pending interrupts', async t => {
  const thread = await newThread()
  const asked = await wait(thread, 'asks', { input: { names: ['a', 'b'] } })
  const waiting = asked.body.__interrupt__ as unknown as { id: string; value: string }[]
  t.same(waiting.map(one => one.value).toSorted(), ['a?', 'b?'])
  const resume = Object.fromEntries(waiting.map(one => [one.id, `${one.value}!`]))
  const done = await wait(thread, 'asks', { command: { resume } })
  t.same((done.body.answers as unknown as string[]).toSorted(), ['a?!', 'b?!'])
  t.equal(done.body.__interrupt__, undefined)
  const other = await newThread()
  await wait(other, 'ask', { input: { question: 'first' } })
  const again = await wait(other, 'ask', { input: { question: 'second' } })
  t.match(again.body.__interrupt__, [{ value: { question: 'second' } }])
  t.equal((again.body.__interrupt__ as unknown as object[]).length, 1)
})

t.test('3: strict_resume: a stale answer fails its run and leaves the thread as it was', async t => {
  const thread = await newThread()
  const strict = (resume: unknown) => wait(thread, 'asks', { command: { resume }, strict_resume: true })
  const asked = await wait(thread, 'asks', { input: { names: ['a', 'b'] } })
  const waiting = asked.body.__interrupt__ as unknown as { id: string; value: string }[]
  const idOf = (value: string) => waiting.find(one => one.value === value)!.id
  const before = (await ask('GET', `/threads/${thread}`)).body
  const same = async (what: string) => {
    const { status, interrupts, values } = (await ask('GET', `/threads/${thread}`)).body
    t.same([status, interrupts, values], [before.status, before.interrupts, before.values], what)
  }
  for (const answer of ['one of two', null, {}, { [idOf('a?')]: 'A', ['0'.repeat(32)]: 'x' }]) {
    const { body } = await strict(answer)
    t.match(body, { __error__: { error: 'UnknownInterruptError' } }, JSON.stringify(answer))
    await same('the thread still waits')
  }
  const { body } = await strict({ [idOf('a?')]: 'A', [idOf('b?')]: 'B' })
  t.same(body.answers, ['A', 'B'])
  t.match((await strict({ [idOf('a?')]: 'again' })).body, { __error__: { message: /already-consumed/ } })
  t.equal((await ask('GET', `/threads/${thread}`)).body.status, 'idle')
})

t.test('3: an interrupt whose answer is given is no longer listed', async t => {
  const thread = await newThread()
  const valuesOf = (interrupts: unknown) => (interrupts as { value: string }[]).map(({ value }) => value).toSorted()
  const asked = await wait(thread, 'asks', { input: { names: ['a', 'b', 'c'] } })
  const waiting = asked.body.__interrupt__ as unknown as { id: string; value: string }[]
  const idOf = (value: string) => waiting.find(one => one.value === value)!.id
  const next = await wait(thread, 'asks', { command: { resume: { [idOf('b?')]: 'B' } } })
  t.same(valuesOf(next.body.__interrupt__), ['a?', 'c?'], 'wait')
  const { interrupts } = (await ask('GET', `/threads/${thread}`)).body
  t.same(valuesOf(Object.values(interrupts!).flat()), ['a?', 'c?'], 'thread')
  const state = (await ask('GET', `/threads/${thread}/state`)).body as unknown as { tasks: Body[]; interrupts: unknown }
  t.same(valuesOf(state.interrupts), ['a?', 'c?'], 'state')
  t.same(valuesOf(state.tasks.flatMap(task => task.interrupts)), ['a?', 'c?'], 'tasks')
  await wait(thread, 'asks', { command: { resume: { [idOf('a?')]: 'A' } } })
  const last = await wait(thread, 'asks', { command: { resume: null } })
  t.same(last.body.answers, ['A', 'B', null], 'null answers the one that is left')
})

t.test('3: values of other types look the same in an interrupt and in the state', async t => {
  const thread = await newThread()
  const { body } = await wait(thread, 'asksOddly', { input: {} })
  const value = {
    big: '12345678901234567890',
    map: { a: 1 },
    set: [1, 2],
    cause: { error: 'TypeError', message: 'bad' },
    bytes: 'AQID',
  }
  t.same(body.value, value)
  t.match(body.__interrupt__, [{ value }])
  const shown = (await ask('GET', `/threads/${thread}`)).body
  t.match(Object.values(shown.interrupts!), [[{ value }]])
  const state = (await ask('GET', `/threads/${thread}/state`)).body
  t.match(state, { values: { value }, interrupts: [{ value }], tasks: [{ interrupts: [{ value }] }] })
})

t.test('4: a thread shows its error until a run succeeds', async t => {
  const thread = await newThread()
  t.match(await wait(thread, 'fail', { input: {} }), { status: 200, body: { __error__: { error: 'TooBadError' } } })
  const failed = (await ask('GET', `/threads/${thread}`)).body
  t.match(failed, { status: 'error', error: { error: 'TooBadError', message: 'too bad' }, values: { before: true } })
  await wait(thread, 'echo', { input: { text: 'fine' } })
  const mended = (await ask('GET', `/threads/${thread}`)).body
  t.equal(mended.status, 'idle')
  t.equal(mended.error, null)
  t.equal((await ask('GET', `/threads/${await newThread()}`)).body.values, null, 'null before the first checkpoint')
})

t.test('4 and 7: the recursion limit is an error with a specific name', async t => {
  const { body } = await wait(null, 'counter', { input: { steps: 50 }, config: { recursion_limit: 3 } })
  t.match(body, { __error__: { error: 'GraphRecursionError', message: /limit of 3/ } })
})

t.test('7: payloads that violate the schema are refused', async t => {
  const wrong: [string, unknown[]][] = [
    ['stream_mode', ['all', ['values', 'all'], 1]],
    ['multitask_strategy', ['skip', 1]],
    ['if_not_exists', ['make']],
    ['on_disconnect', ['stop']],
    ['on_completion', ['forget']],
    ['after_seconds', [-1, 'soon']],
    ['durability', ['never']],
    ['webhook', ['', 1]],
    ['interrupt_before', ['node', 1]],
    ['feedback_keys', ['key', [1]]],
    ['strict_resume', ['yes', 1]],
    ['metadata', ['x', []]],
    ['config', ['x']],
    ['command', ['x', { goto: 1 }]],
    ['assistant_id', [null, 1]],
  ]
  const thread = await newThread()
  for (const [name, values] of wrong)
    for (const value of values)
      for (const path of [`/threads/${thread}/runs`, '/runs/wait', '/runs/stream']) {
        const { status, body } = await ask('POST', path, { assistant_id: 'echo', input: {}, [name]: value })
        t.equal(status, 422, `${path} ${name}: ${JSON.stringify(value)}`)
        t.match(body.detail, name)
      }
  t.same((await ask('GET', `/threads/${thread}/runs`)).body, [], 'none of them made a run')
  for (const on_completion of ['delete', 'keep', 'complete', 'continue'])
    t.equal((await wait(null, 'echo', { input: {}, on_completion })).status, 200, on_completion)
  t.equal((await wait(null, 'echo', { input: {}, later_member: true })).status, 200, 'what may be ignored')
})

t.test('8.2: a stateless run has a dedicated thread and ignores thread members of the payload', async t => {
  const thread = await newThread()
  const { body, headers } = await wait(null, 'seen_config', {
    input: {},
    config: { configurable: { thread_id: thread } },
  })
  const { thread_id, run_id } = (body.seen_config as unknown as { configurable: { [name: string]: string } })
    .configurable
  t.not(thread_id, thread)
  t.equal(headers.get('content-location'), `/runs/${run_id}`)
  t.equal((await ask('GET', `/threads/${thread_id}/runs/${run_id}`)).status, 404)
  t.equal((await ask('GET', `/threads/${thread_id}`)).status, 404)
  t.equal((await ask('GET', `/threads/${thread}`)).body.values, null)
  const kept = await ask('POST', '/runs', { assistant_id: 'echo', input: { text: 'kept' }, on_completion: 'keep' })
  t.match(kept, { status: 200, body: { thread_id: String, kwargs: { temporary: false } } })
  await ask('GET', `/threads/${kept.body.thread_id}/runs/${kept.body.run_id}/join`)
  t.match((await ask('GET', `/threads/${kept.body.thread_id}`)).body, { values: { seen: 'kept' } })
})

t.test('a graph finds request headers in its config, and no credential', async t => {
  const headers = { 'x-user-id': 'ann', 'user-agent': 'curl/8', 'x-api-key': 'secret', 'x-other': 'from the header' }
  const config = { configurable: { 'x-other': 'from the body' } }
  const { body } = await ask('POST', '/runs/wait', { assistant_id: 'seen_config', input: {}, config }, headers)
  const { configurable } = (body as unknown as { seen_config: { configurable: { [name: string]: unknown } } })
    .seen_config
  t.match(configurable, { 'x-user-id': 'ann', 'user-agent': 'curl/8', 'x-other': 'from the body' })
  t.notOk(JSON.stringify(configurable).includes('secret'))
})

t.test('8.3: the user of a run', async t => {
  const configurable = { user_id: 'ada', langgraph_auth_user: { identity: 'root' } }
  const metadata = { langgraph_auth_user_id: 'root', mine: 1 }
  const { body } = await wait(null, 'seen_config', { input: {}, metadata, config: { configurable, metadata } })
  const seen_config = body.seen_config as unknown as { configurable: Body; metadata: Body }
  t.match(seen_config, { configurable: { user_id: 'ada' }, metadata: { user_id: 'ada', mine: 1 } })
  t.equal(seen_config.configurable.langgraph_auth_user, undefined)
  t.equal(seen_config.metadata.langgraph_auth_user_id, undefined, 'nor as metadata')
})

t.test('8.8: an unknown checkpoint, and a checkpoint of another thread', async t => {
  const thread = await newThread()
  await wait(thread, 'counter', { input: { steps: 1 } })
  const other = await newThread()
  await wait(other, 'counter', { input: { steps: 1 } })
  const { body } = await ask('GET', `/threads/${other}/state`)
  const { checkpoint_id } = body.checkpoint as unknown as { checkpoint_id: string }
  for (const path of [`state/${checkpoint_id}`, `state/${randomUUID()}`])
    t.equal((await ask('GET', `/threads/${thread}/${path}`)).status, 404, path)
  t.equal((await ask('POST', `/threads/${thread}/state`, { values: {}, checkpoint: { checkpoint_id } })).status, 404)
  t.equal((await wait(thread, 'counter', { input: null, checkpoint: { checkpoint_id } })).status, 404)
})

t.test('9: a run belongs to its thread', async t => {
  const [thread, other] = [await newThread(), await newThread()]
  const { body, headers } = await ask('POST', `/threads/${thread}/runs`, {
    assistant_id: 'slow',
    input: { ms: 30_000 },
  })
  t.equal(headers.get('content-location'), `/threads/${thread}/runs/${body.run_id}`)
  const run = `/threads/${other}/runs/${body.run_id}`
  const paths = [
    ['GET', run],
    ['DELETE', run],
    ['GET', `${run}/join`],
    ['GET', `${run}/stream`],
    ['POST', `${run}/cancel`],
  ] as const
  for (const [method, path] of paths)
    t.match(await ask(method, path), { status: 404, body: { detail: /not found/i } }, `${method} ${path}`)
  t.equal((await ask('POST', '/runs/cancel', { thread_id: other, run_ids: [body.run_id] })).status, 404)
  t.not((await ask('GET', `/threads/${thread}/runs/${body.run_id}`)).body.status, 'interrupted')
  await ask('POST', `/threads/${thread}/runs/${body.run_id}/cancel?wait=true`)
})

t.test('11: every form of wait, and the answer of a cancelled run', async t => {
  const thread = await newThread()
  const start = async () =>
    (await ask('POST', `/threads/${thread}/runs`, { assistant_id: 'slow', input: { ms: 30_000 } })).body.run_id
  for (const [query, status] of [
    ['', 202],
    ['?wait=0', 202],
    ['?wait=false', 202],
    ['?wait=', 202],
    ['?wait=1', 204],
    ['?wait=true&action=interrupt&reason=taken', 204],
    ['?wait=yes', 204],
  ] as const) {
    const run = `/threads/${thread}/runs/${await start()}`
    const waiting = ask('GET', `${run}/join`)
    const answer = await ask('POST', `${run}/cancel${query}`)
    t.equal(answer.status, status, query)
    t.equal(answer.text, '')
    t.equal((await waiting).status, 200)
    t.notMatch((await waiting).text, '__error__', 'who waited for it gets the last values')
    await until(async () => (await ask('GET', run)).body.status === ('interrupted' as never))
    t.equal((await ask('POST', `${run}/cancel`)).status, 409)
  }
  const run = `/threads/${thread}/runs/${await start()}`
  t.equal((await ask('POST', `${run}/cancel?action=forget`)).status, 422)
  t.equal((await ask('POST', `${run}/cancel?action=rollback&reason=taken`)).status, 422)
  await ask('POST', `${run}/cancel?wait=1&action=rollback`)
  t.equal((await ask('GET', run)).status, 404)
})

t.test('3 and 11: the reason of a cancel', async t => {
  const thread = await newThread()
  const start = async (more: object = {}) =>
    (await ask('POST', `/threads/${thread}/runs`, { assistant_id: 'slow', input: { ms: 30_000 }, ...more })).body.run_id
  const reasonOf = async (run_id: unknown) =>
    (await ask('GET', `/threads/${thread}/runs/${run_id}`)).body.cancel_reason as unknown
  const running = await start()
  const waits = await start()
  t.equal(await reasonOf(running), null)
  await until(async () => (await ask('GET', `/threads/${thread}/runs/${running}`)).body.status === ('running' as never))
  await ask('POST', `/threads/${thread}/runs/${running}/cancel?wait=1&reason=taken`)
  t.match(await reasonOf(running), /^taken:/)
  const newest = await start({ multitask_strategy: 'interrupt' })
  t.equal(await reasonOf(waits), `superseded: run ${newest} took its place`)
  await ask('POST', '/runs/cancel', { thread_id: thread, run_ids: [newest] })
  t.match(await reasonOf(newest), /^cancelled:/)
  const gone = new AbortController()
  const left = fetch(`${cluster.url}/threads/${thread}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'slow', input: { ms: 30_000 }, on_disconnect: 'cancel' }),
    signal: gone.signal,
  })
  await left
  gone.abort()
  const list = async () =>
    (await ask('GET', `/threads/${thread}/runs?limit=1&select=status&select=cancel_reason`)).body as unknown as Body[]
  await until(async () => (await list())[0]!.status === ('interrupted' as never))
  t.match(await list(), [{ status: 'interrupted', cancel_reason: /^disconnected:/ }])
})

t.test('12: frames and their headers', async t => {
  const body = { assistant_id: 'odd', input: {}, stream_mode: ['values', 'updates'] }
  const response = await fetch(`${cluster.url}/runs/stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  t.match(response.headers.get('content-type'), /^text\/event-stream/)
  t.match(response.headers.get('cache-control'), /no-(store|cache)/)
  t.equal(response.headers.get('x-accel-buffering'), 'no')
  t.equal(response.headers.get('content-encoding'), null)
  const text = await response.text()
  const frames = text.split('\n\n')
  t.equal(frames.pop(), '', 'nothing behind the last frame')
  for (const [i, frame] of frames.entries()) {
    const fields = frame.split('\n').filter(line => !line.startsWith(':'))
    t.same(
      fields.map(line => line.slice(0, line.indexOf(':'))),
      ['id', 'event', 'data'],
    )
    t.equal(fields[0], `id: ${i}`)
    t.doesNotThrow(() => JSON.parse(fields[2]!.slice(6)))
  }
  t.notMatch(text, /\\ud[89a-f]|\r/i)
})

t.test('13: the writes of a node are its update; parallel nodes are separate events', async t => {
  const updates = async (assistant_id: string, input: object) => {
    const body = { assistant_id, input, stream_mode: 'updates' }
    const { frames } = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body })
    return frames.slice(1).map(frame => JSON.parse(frame.data))
  }
  const both = await updates('twice', {})
  t.same(both.map(one => Object.keys(one)[0]).toSorted(), ['left', 'right'])
  t.same(
    both.find(one => 'right' in one),
    { right: null },
  )
  t.same(await updates('fan', { items: [1, 2] }), [{ work: { done: [1] } }, { work: { done: [2] } }])
})

t.test('14: joining a failed run returns its error with any header', async t => {
  const thread = await newThread()
  const { body } = await ask('POST', `/threads/${thread}/runs`, { assistant_id: 'fail', input: {} })
  const stream = `${cluster.url}/threads/${thread}/runs/${body.run_id}/stream`
  for (const id of [null, '-1', '-', '0']) {
    const { frames, ended } = await readStream(stream, id === null ? {} : { headers: { 'last-event-id': id } })
    t.ok(ended)
    t.match(frames.at(-1), { event: 'error', data: /"error":"TooBadError","message":"too bad"/ })
  }
  const some = await readStream(`${stream}?stream_mode=updates`, { headers: { 'last-event-id': '-1' } })
  t.match(some.frames.at(-1), { event: 'error' }, 'a filter lets it pass')
  t.equal((await ask('GET', `/threads/${thread}/runs/${randomUUID()}/stream`)).status, 404)
})

t.test('14 and 7: a stream of chosen namespaces', async t => {
  const thread = await newThread()
  const body = {
    assistant_id: 'deep',
    input: {},
    stream_mode: 'updates',
    stream_subgraphs: true,
    stream_resumable: true,
  }
  const runs = `${cluster.url}/threads/${thread}/runs`
  const { frames, headers } = await readStream(`${runs}/stream?namespace=`, { method: 'POST', body })
  t.same([...new Set(frames.map(({ event }) => event))], ['metadata', 'updates'], 'the root graph, for its creator')
  const join = async (query: string) => {
    const joined = await readStream(`${cluster.url}${headers.get('location')}?${query}`, {
      headers: { 'last-event-id': '-1' },
    })
    return joined.frames.map(({ event }) => event)
  }
  const all = await join('checkpoint_id=x')
  const sub = all.find(event => /^updates\|sub:[^|]*$/.test(event))!.slice('updates|'.length)
  t.same([...new Set(await join(`namespace=${sub}`))], ['metadata', `updates|${sub}`], 'a subgraph')
  t.same(
    await join(`namespace=&namespace=${encodeURIComponent(sub)}`),
    all.filter(event => event.split('|').length < 3),
  )
  t.match((await ask('GET', '/info')).body, { flags: { stream_namespaces: true, strict_resume: true } })
  const select = encodeURIComponent('["values.path","next"]')
  t.equal((await ask('GET', `/threads/${thread}/state?select=${select}`)).status, 200)
  t.equal((await ask('POST', `/threads/${thread}/history`, { select: ['values'], limit: 1 })).status, 200)
})

t.test('6: before in each form, limits, and the history of a subgraph', async t => {
  const thread = await newThread()
  await wait(thread, 'counter', { input: { steps: 4 } })
  const history = async (body: object) =>
    (await ask('POST', `/threads/${thread}/history`, body)).body as unknown as {
      checkpoint: { checkpoint_id: string }
    }[]
  const all = await history({})
  t.equal(all.length, 6)
  const { checkpoint } = all[1]!
  const forms = [
    checkpoint.checkpoint_id,
    checkpoint,
    { checkpoint_id: checkpoint.checkpoint_id },
    { configurable: { checkpoint_id: checkpoint.checkpoint_id } },
  ]
  for (const before of forms) t.same(await history({ before }), all.slice(2), JSON.stringify(before))
  const query = `before=${checkpoint.checkpoint_id}&limit=2`
  t.same((await ask('GET', `/threads/${thread}/history?${query}`)).body, all.slice(2, 4))
  for (const limit of [0, 1001, -1, 'x', 1.5]) {
    t.equal((await ask('POST', `/threads/${thread}/history`, { limit })).status, 422, `${limit}`)
    t.equal((await ask('GET', `/threads/${thread}/history?limit=${limit}`)).status, 422, `?limit=${limit}`)
  }
  await wait(thread, 'counter', { input: { steps: 9 } })
  t.equal((await history({})).length, 10, 'ten without a limit')
  t.equal((await ask('GET', `/threads/${thread}/history`)).text.match(/"created_at"/g)?.length, 10)
})

t.test('10: joining an older run returns the current values of the thread', async t => {
  const thread = await newThread()
  const start = async (steps: number) =>
    (await ask('POST', `/threads/${thread}/runs`, { assistant_id: 'counter', input: { steps } })).body.run_id
  const [first, second] = [await start(1), await start(3)]
  const join = async (run: string) => (await ask('GET', `/threads/${thread}/runs/${run}/join`)).body.numbers
  t.same(await join(second!), [1, 2, 3])
  t.same(await join(first!), [1, 2, 3])
  const empty = await newThread()
  const run = await ask('POST', `/threads/${empty}/runs`, { assistant_id: 'echo', input: {}, after_seconds: 60 })
  const waiting = ask('GET', `/threads/${empty}/runs/${run.body.run_id}/join`)
  await ask('POST', `/threads/${empty}/runs/${run.body.run_id}/cancel?wait=1`)
  t.same((await waiting).body, {}, 'nothing is an object')
  t.match((await ask('GET', `/threads/${empty}`)).body, { status: 'idle', values: null })
})
