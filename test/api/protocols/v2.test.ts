import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { basicServer, type Cluster, startCluster, type TestServer } from '../../helpers/cluster.js'
import { textsOf } from '../../helpers/messages.js'
import { lines } from '../../helpers/sdk.js'
import { readStream } from '../../helpers/sse.js'
import { until } from '../../helpers/until.js'

const ALL = ['values', 'updates', 'messages', 'tools', 'lifecycle', 'input', 'tasks', 'checkpoints', 'custom']

interface Event {
  type: string
  event_id: string
  seq: number
  method: string
  params: { namespace: string[]; timestamp: number; node?: string; data: { [name: string]: unknown } }
}

/** The requests of a program without an SDK. */
const on = (url: string, thread: string) => {
  const send = async (body: unknown) => {
    const response = await fetch(`${url}/threads/${thread}/commands`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as { [name: string]: never } }
  }
  let id = 0
  const command = async (method: string, params: object = {}) => {
    const mine = ++id
    const { status, body } = await send({ id: mine, method, params })
    if (status !== 200 || (body as { id?: number }).id !== mine) throw new Error(JSON.stringify(body))
    return body as unknown as { type: string; error?: string; result: { [name: string]: unknown }; meta?: object }
  }
  /** The events of a stream up to the nth event for which `until` is true. */
  const events = async (body: object, until: (event: Event) => boolean = isEnd, n = 1, headers = {}) => {
    const response = await fetch(`${url}/threads/${thread}/stream/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
    const out: Event[] = []
    let rest = ''
    for await (const bytes of response.body!) {
      const frames = (rest + Buffer.from(bytes as Uint8Array).toString()).split('\n\n')
      rest = frames.pop()!
      for (const frame of frames) {
        const fields = Object.fromEntries(
          frame
            .split('\n')
            .filter(line => !line.startsWith(':'))
            .map(line => line.split(/: (.*)/s)),
        ) as { id: string; event: string; data: string }
        const event = JSON.parse(fields.data) as Event
        if (fields.id !== event.event_id || fields.event !== event.method) throw new Error(frame)
        out.push(event)
        if (until(event) && --n === 0) return out
      }
    }
    return out
  }
  return { send, command, events }
}
const isEnd = ({ method, params }: Event) =>
  method === 'lifecycle' &&
  params.namespace.length === 0 &&
  ['completed', 'failed', 'interrupted'].includes(params.data.event as string)
const of = (events: Event[], method: string) => events.filter(event => event.method === method)
const data = (events: Event[]) => events.map(event => event.params.data)
const human = (content: string) => ({ messages: [{ type: 'human', content }] })

t.setTimeout(120_000)

let cluster: TestServer
let chat: Cluster
t.before(async () => {
  cluster = await basicServer()
  chat = await startCluster({ app: 'test/apps/chat' })
})
t.teardown(() => Promise.all([cluster?.stop(), chat?.stop()]))

t.test('repeated runs on a thread with an id of the client, from the first event', async t => {
  const { command, events } = on(chat.url, randomUUID())
  const early = events({ channels: ALL })
  const started = await command('run.start', { assistant_id: 'chat', input: human('hello there') })
  t.match(started, { type: 'success', result: { run_id: String }, meta: { thread_id: String } })
  const seen = await early
  t.same(await events({ channels: ALL }), seen, 'a stream that is opened late begins with the first event')
  const seqs = seen.map(event => event.seq)
  t.same(
    seqs,
    seqs.toSorted((a, b) => a - b),
  )
  t.equal(new Set(seen.map(event => event.event_id)).size, seen.length)
  for (const event of seen) t.match(event.event_id, new RegExp(`^\\d+-${event.seq}$`))
  t.same(await events({ channels: ALL, since: seqs[4] }), seen.slice(5), 'since')
  const after = (id: string, more = {}) => events({ channels: ALL, ...more }, isEnd, 1, { 'last-event-id': id })
  t.same(await after(seen[6]!.event_id), seen.slice(7), 'the last id that was received')
  t.same(await after(seen[6]!.event_id, { since: seqs[4] }), seen.slice(5), 'since wins')
  t.same(await after('17'), seen, 'an id of another stream counts as absent')
  t.same(data(of(seen, 'lifecycle')), [
    { event: 'running', graph_name: 'chat' },
    { event: 'completed', graph_name: 'chat' },
  ])
  t.equal(seen[0]!.method, 'lifecycle')
  t.ok(isEnd(seen.at(-1)!))
  const text = of(seen, 'messages').flatMap(({ params }) => (params.data.delta as { text?: string })?.text ?? [])
  t.equal(text.join(''), 'You said: hello there')
  t.same(
    of(seen, 'messages').map(({ params }) => params.data.event),
    [
      'message-start',
      'content-block-start',
      ...Array(4).fill('content-block-delta'),
      'content-block-finish',
      'message-finish',
    ],
  )
  t.match(of(seen, 'messages')[0]!.params, { node: 'talk', namespace: [], data: { role: 'ai', id: String } })
  t.match(of(seen, 'updates')[0]!.params, { node: 'talk', data: { node: 'talk', values: { messages: [{}] } } })
  const last = of(seen, 'values').at(-1)!.params.data as { messages: { content: string }[] }
  t.same(
    last.messages.map(one => one.content),
    ['hello there', 'You said: hello there'],
  )
  for (const [i, event] of seen.entries())
    if (event.method === 'values') t.equal(seen[i - 1]!.method, 'checkpoints', 'its checkpoint comes before a state')
})

t.test('an unknown channel is refused before the stream begins', async t => {
  const { events } = on(cluster.url, randomUUID())
  await t.rejects(events({ channels: ['values', 'foo'] }), /HTTP 422: .*channels: expected values, .* got \\"foo\\"/)
})

t.test('a stream is filtered by channels, namespaces and depth', async t => {
  const { command, events } = on(cluster.url, randomUUID())
  await command('run.start', { assistant_id: 'outer', input: human('find it') })
  const all = await events({ channels: ALL })
  const sub = all.find(event => event.params.namespace.length > 0)!.params.namespace[0]!
  t.match(sub, /^agent:/)
  const picked = async (body: object) => (await events({ ...body, channels: [...ALL] })).map(event => event.seq)
  const where = (test: (event: Event) => boolean) => all.filter(test).map(event => event.seq)
  for (const channel of ALL.filter(one => one !== 'lifecycle'))
    t.same(
      (await events({ channels: [channel, 'lifecycle'] })).map(event => event.seq),
      where(({ method }) => method === 'lifecycle' || method.split('.')[0] === channel),
      channel,
    )
  t.same(
    await picked({ namespaces: [[]], depth: 0 }),
    where(event => event.params.namespace.length === 0),
  )
  t.same(
    await picked({ namespaces: [['agent'], []], depth: 0 }),
    where(event => event.params.namespace.length <= 1),
  )
  const inside = await Promise.race([
    events({ channels: ['lifecycle'], namespaces: [['agent']] }, event => event.params.data.event === 'completed'),
    sleep(5_000, [] as Event[]),
  ])
  t.same(
    inside.map(event => [event.params.namespace, event.params.data]),
    [
      [[sub], { event: 'started', graph_name: 'agent' }],
      [[sub], { event: 'completed', graph_name: 'agent' }],
    ],
  )
  await t.rejects(events({ channels: [] }), /HTTP 422.*channels/)
  await t.rejects(events({ channels: ['values'], depth: -1 }), /HTTP 422.*depth/)
})

t.test('tools, tool calls and reasoning come as blocks', async t => {
  const { command, events } = on(cluster.url, randomUUID())
  await command('run.start', { assistant_id: 'talker', input: human('find it') })
  const all = await events({ channels: ALL })
  const [started, finished] = of(all, 'tools')
  t.match(started!.params, {
    namespace: [],
    data: { event: 'tool-started', tool_name: 'lookup', tool_call_id: String },
  })
  t.match(finished!.params.data, { event: 'tool-finished', output: /./ })
  const blocks = of(all, 'messages').filter(event => event.params.data.event === 'content-block-finish')
  t.match(
    blocks.map(event => event.params.data.content).find(one => (one as { type: string }).type === 'tool_call'),
    { type: 'tool_call', name: 'lookup', args: Object },
  )
  const usage = of(all, 'messages').find(event => event.params.data.usage !== undefined)
  t.match(usage?.params.data, { event: 'message-finish', usage: { total_tokens: Number } })
  for (const event of of(all, 'messages')) {
    const open = event.params.data.event === 'content-block-start'
    if (open) t.type((event.params.data.content as { type: string }).type, 'string')
  }
})

t.test('one stream over several runs, and over a restart of everything', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-v2-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const thread = randomUUID()
  const start = { assistant_id: 'chat', input: human('again') }
  let one = await startCluster({ app: 'test/apps/chat', data: folder })
  const before = on(one.url, thread)
  const open = before.events({ channels: ['lifecycle'] }, isEnd, 2)
  await before.command('run.start', start)
  await before.command('run.start', start)
  const two = await open
  t.same(
    data(two).map(one => one.event),
    ['running', 'completed', 'running', 'completed'],
  )
  await one.stop()
  one = await startCluster({ app: 'test/apps/chat', data: folder })
  t.teardown(() => one.stop())
  const after = on(one.url, thread)
  t.same(await after.events({ channels: ['lifecycle'] }), two.slice(2), 'the last run is streamed unchanged')
  await after.command('run.start', start)
  const third = await after.events({ channels: ['lifecycle'], since: two.at(-1)!.seq })
  t.same(
    data(third).map(one => one.event),
    ['running', 'completed'],
  )
  t.ok(third[0]!.seq > two.at(-1)!.seq, 'seq continues to rise')
})

t.test('a command or the input of a run answers an interrupt', async t => {
  const thread = randomUUID()
  const { command, events } = on(chat.url, thread)
  const settled = async (thread: string) => {
    const client = lines[0]!.connect(chat.url)
    while ((await client.threads.get(thread)).status === 'busy') await sleep(50)
  }
  const ask = async () => {
    await command('run.start', { assistant_id: 'chat', input: human('may I?') })
    const all = await events({ channels: ALL })
    t.equal(all.at(-1)!.params.data.event, 'interrupted')
    const [asked, ...more] = of(all, 'input.requested')
    t.same(more, [])
    t.match(asked!.params.data, { payload: { question: 'may I?' }, value: { question: 'may I?' } })
    return asked!.params.data.interrupt_id as string
  }
  const answers = async () => {
    const { result } = await command('state.get', { namespace: [], keys: ['messages'] })
    return (result.values as { messages: { content: string }[] }).messages.map(one => one.content)
  }
  const interrupt_id = await ask()
  t.match(await command('input.respond', { interrupt_id: 'another', response: 1, namespace: [] }), {
    type: 'error',
    error: 'no_such_interrupt',
  })
  t.match(await command('input.respond', { interrupt_id, response: 'yes', namespace: [] }), { type: 'success' })
  t.equal((await events({ channels: ['lifecycle'] })).at(-1)!.params.data.event, 'completed')
  t.same(await answers(), ['may I?', 'The answer was yes'])
  t.match(await command('input.respond', { interrupt_id, response: 'yes', namespace: [] }), {
    error: 'no_such_interrupt',
  })
  const other = await ask()
  await command('input.respond', { responses: [{ interrupt_id: other, response: null, namespace: [] }] })
  await events({ channels: ['lifecycle'] })
  t.equal((await answers()).at(-1), 'The answer was null')
  await ask()
  await command('run.start', { assistant_id: 'chat', input: 'of course' })
  await events({ channels: ['lifecycle'] })
  t.equal((await answers()).at(-1), 'The answer was of course')

  for (let round = 0; round < 3; round++) {
    const asked = await ask()
    const many = await Promise.all(
      ['a', 'b', 'c', 'd', 'e'].map(response =>
        round === 2
          ? command('run.start', { assistant_id: 'chat', input: response })
          : command('input.respond', { interrupt_id: asked, response, namespace: [] }),
      ),
    )
    const taken = many.filter(one => one.type === 'success')
    // After the interrupt is answered, run.start takes the value as input and input.respond refuses it.
    t.equal(taken.length, round === 2 ? 5 : 1, 'one of five at once is the answer')
    for (const one of many) if (one.type !== 'success') t.equal(one.error, 'no_such_interrupt')
    await settled(thread)
    const given = (await answers()).filter(text => text.startsWith('The answer was '))
    t.equal(given.length, 4 + round, 'and one answer was given')
  }
})

t.test('state, forks and the tree', async t => {
  const thread = randomUUID()
  const { command, events } = on(cluster.url, thread)
  t.match(await command('agent.getTree'), { type: 'error', error: 'no_such_run' })
  t.match(await command('state.get', { namespace: [] }), { type: 'error', error: 'invalid_argument' })
  await command('run.start', { assistant_id: 'nested', input: {} })
  const all = await events({ channels: ALL })
  t.match(await command('agent.getTree'), {
    result: { tree: { namespace: [], status: 'interrupted', graph_name: 'nested' } },
  })
  const ns = all.find(event => event.params.namespace.length === 1)!.params.namespace
  t.same((await command('state.get', { namespace: ns })).result.values, { numbers: [1, 2] })
  t.match(await command('state.get', { namespace: ['sub:another'] }), { error: 'no_such_namespace' })
  t.match((await command('state.get', { namespace: [] })).result, {
    values: { numbers: [1] },
    checkpoint: { id: of(all, 'checkpoints').findLast(event => event.params.namespace.length === 0)!.params.data.id },
  })
  const listed = (await command('state.listCheckpoints', { limit: 2 })).result.checkpoints as { id: string }[]
  const root = of(all, 'checkpoints').filter(event => event.params.namespace.length === 0)
  t.match(listed, [{ step: 1, timestamp: String, metadata: { source: 'loop' } }, { step: 0 }])
  t.same(
    listed.map(one => one.id),
    root
      .map(event => event.params.data.id)
      .reverse()
      .slice(0, 2),
  )
  const older = await command('state.listCheckpoints', { before: listed[1]!.id })
  t.same(older.result.checkpoints, [
    { ...(older.result.checkpoints as object[])[0], id: root[0]!.params.data.id, step: -1 },
  ])
  t.match(await command('state.listCheckpoints', { namespace: ns }), { result: { checkpoints: [{ step: 1 }, {}, {}] } })
  t.match(await command('state.listCheckpoints', { namespace: ['x'] }), { error: 'no_such_namespace' })
  t.match(await command('state.fork', { checkpoint_id: 'another' }), { error: 'no_such_checkpoint' })
  const first = of(all, 'checkpoints').find(event => event.params.data.step === 0)!.params.data.id
  const forked = await command('state.fork', { checkpoint_id: first })
  t.match(forked, { type: 'success', result: { run_id: String, thread_id: thread } })
  t.equal((await events({ channels: ['lifecycle'] }))[0]!.params.data.event, 'running')
})

t.test('the tree: nested subgraphs in the order of their start, with their end', async t => {
  const treeAfter = async (assistant_id: string, input: unknown) => {
    const { command, events } = on(cluster.url, randomUUID())
    await command('run.start', { assistant_id, input })
    await events({ channels: ['lifecycle'] })
    return (await command('agent.getTree')).result.tree
  }
  t.same(await treeAfter('echo', {}), { namespace: [], status: 'completed', graph_name: 'echo' }, 'no subgraphs')
  const sub = { namespace: [/^sub:[0-9a-f-]+$/], graph_name: 'sub' }
  t.match(await treeAfter('deep', {}), {
    namespace: [],
    status: 'completed',
    graph_name: 'deep',
    children: [
      {
        ...sub,
        status: 'completed',
        children: [{ namespace: [/^sub:/, /^down:/], status: 'completed', graph_name: 'down', children: undefined }],
      },
    ],
  })
  t.match(await treeAfter('nested', {}), { status: 'interrupted', children: [{ ...sub, status: 'interrupted' }] })
  const failed = [{ namespace: [/^node:/], status: 'failed', graph_name: 'node' }]
  t.match(await treeAfter('throwsBelow', { kind: 'nested' }), { status: 'failed', children: failed })

  const thread = randomUUID()
  const { command, events } = on(cluster.url, thread)
  const { result } = await command('run.start', {
    assistant_id: 'signals',
    input: { name: 'tree', ms: 1, slow: 'inner' },
  })
  await events({ channels: ['lifecycle'], namespaces: [['sub']] }, ({ params }) => params.data.event === 'started')
  t.match(await command('agent.getTree'), {
    result: { tree: { status: 'running', children: [{ ...sub, status: 'started' }] } },
  })
  await fetch(`${cluster.url}/threads/${thread}/runs/${result.run_id}/cancel?wait=1`, { method: 'POST' })
  await command('run.start', { assistant_id: 'echo', input: {} })
  t.match(await command('agent.getTree', { run_id: result.run_id }), {
    result: { tree: { status: 'interrupted', graph_name: 'signals', children: [{ ...sub, status: 'interrupted' }] } },
  })
  t.match(await command('agent.getTree', { run_id: thread }), { error: 'no_such_run' })
})

t.test('invalid commands and errors of runs', async t => {
  const { send, command, events } = on(cluster.url, randomUUID())
  for (const body of ['{', '[]', '{"method":"run.start"}', '{"id":-1,"method":"x"}', '{"id":1}'])
    t.match(await send(body), { status: 400, body: { type: 'error', id: null, error: 'invalid_argument' } }, body)
  t.match(await command('what.ever'), { type: 'error', error: 'unknown_command' })
  t.match(await command('toString'), { type: 'error', error: 'unknown_command' })
  for (const method of ['input.inject', 'subscription.subscribe', 'subscription.reconnect'])
    t.match(await command(method), { type: 'error', error: 'not_supported' })
  t.match(await command('run.start', { input: {} }), {
    type: 'error',
    error: 'invalid_argument',
    message: /assistant_id/,
  })
  t.match(await command('run.start', { assistant_id: 'nobody' }), {
    error: 'invalid_argument',
    message: /No assistant/,
  })
  t.match(await command('run.start', { assistant_id: 'echo', config: 1 }), { error: 'invalid_argument' })
  await command('run.start', { assistant_id: 'fail', input: {}, multitaskStrategy: 'whatever' })
  const all = await events({ channels: ['lifecycle'] })
  t.match(all.at(-1)!.params.data, { event: 'failed', error: 'too bad' })
})

t.test('members of a run of the protocol: tracer, strategy, config, fork', async t => {
  const thread = randomUUID()
  const { command, events } = on(cluster.url, thread)
  const at = async (path: string) => (await fetch(`${cluster.url}/threads/${thread}${path}`)).json() as Promise<never>
  const config = { configurable: { mine: 1 }, tags: ['tag'], recursion_limit: 9 }
  const langsmith_tracer = { project_name: 'p', example_id: 'e' }
  await command('run.start', {
    assistant_id: 'seen_config',
    input: { ask: 1 },
    config,
    metadata: { of: 'run' },
    langsmith_tracer,
  })
  const seen = of(await events({ channels: ['values', 'lifecycle'] }), 'values').at(-1)!.params.data
  t.match(seen, {
    seen_config: {
      configurable: { mine: 1, langsmith_project: 'p', langsmith_example_id: 'e', thread_id: thread },
      metadata: { of: 'run', graph_id: 'seen_config' },
      recursionLimit: 9,
    },
  })
  t.notHas(seen, { __interrupt__: Array })
  await command('run.start', { assistant_id: 'slow', input: { ms: 20_000 } })
  t.match(await command('run.start', { assistant_id: 'echo', input: {}, multitaskStrategy: 'reject' }), {
    type: 'error',
    error: 'invalid_argument',
    message: /already running/,
  })
  t.match(await command('run.start', { assistant_id: 'echo', input: {}, multitaskStrategy: 'interrupt' }), {
    type: 'success',
  })
  await until(async () => ((await at('')) as { status: string }).status === 'idle')
  const [run] = (await at('/runs')) as { kwargs: { resumable: boolean; stream_subgraphs: boolean }; status: string }[]
  t.match(run, { status: 'success', kwargs: { resumable: true, stream_subgraphs: true } })

  const other = on(cluster.url, randomUUID())
  await other.command('run.start', { assistant_id: 'counter', input: { steps: 2 } })
  const steps = of(await other.events({ channels: ['checkpoints', 'lifecycle'] }), 'checkpoints')
  const first = steps.find(({ params }) => params.data.step === 1)!.params.data
  const fork = { configurable: { checkpoint_id: first.id } }
  await other.command('run.start', { assistant_id: 'counter', input: null, config: fork })
  const forked = of(await other.events({ channels: ['checkpoints', 'lifecycle'] }), 'checkpoints')
  t.match(forked[0]!.params.data, { source: 'fork', parent_id: first.id }, 'it continues from the one that was named')
})

t.test('answers to several interrupts, with an update and a goto', async t => {
  const { command, events } = on(cluster.url, randomUUID())
  await command('run.start', { assistant_id: 'asks', input: { names: ['a', 'b'] } })
  const asked = of(await events({ channels: ['input', 'lifecycle'] }), 'input.requested')
  t.same(asked.map(one => one.params.data.payload).toSorted(), ['a?', 'b?'])
  const responses = asked.map(({ params: { namespace, data } }) => ({
    interrupt_id: data.interrupt_id,
    namespace,
    response: `${data.value}!`,
  }))
  t.match(await command('input.respond', { responses: [...responses, { interrupt_id: 'x', response: 1 }] }), {
    error: 'no_such_interrupt',
  })
  t.match(await command('input.respond', { responses: [] }), { error: 'invalid_argument' })
  t.match(await command('input.respond', {}), { error: 'invalid_argument' })
  t.match(await command('input.respond', { responses }), { type: 'success' })
  const done = of(await events({ channels: ['values', 'lifecycle'] }), 'values').at(-1)!.params.data
  t.same((done.answers as string[]).toSorted(), ['a?!', 'b?!'])

  const orders = on(cluster.url, randomUUID())
  await orders.command('run.start', { assistant_id: 'orders', input: { note: 'x' } })
  const [where] = of(await orders.events({ channels: ['input', 'lifecycle'] }), 'input.requested')
  const { interrupt_id } = where!.params.data
  const more = { update: { path: ['u'] }, goto: { node: 'b', input: { item: 'one' } }, metadata: { by: 'me' } }
  await orders.command('input.respond', { interrupt_id, response: 'home', namespace: [], ...more })
  const all = await orders.events({ channels: ['values', 'lifecycle'] })
  t.same((of(all, 'values').at(-1)!.params.data.path as string[]).toSorted(), ['answer home', 'b one', 'u'])
})

t.test('a cancelled run is interrupted; a run whose host was lost has failed', async t => {
  const thread = randomUUID()
  const { command, events } = on(cluster.url, thread)
  const { result } = await command('run.start', { assistant_id: 'slow', input: { ms: 20_000 } })
  const open = events({ channels: ['lifecycle'] })
  await events({ channels: ['lifecycle'] }, () => true)
  await fetch(`${cluster.url}/threads/${thread}/runs/${result.run_id}/cancel?wait=1`, { method: 'POST' })
  t.equal((await open).at(-1)!.params.data.event, 'interrupted')
  const faults = await startCluster({ app: 'test/apps/faults' })
  t.teardown(() => faults.stop())
  const other = on(faults.url, randomUUID())
  await other.command('run.start', { assistant_id: 'poison', input: { harm: 'exit', at: 1, times: 9 } })
  const seen = await other.events({ channels: ['lifecycle'] })
  t.match(seen.at(-1)!.params.data, { event: 'failed', error: /given up/ })
  t.equal((await other.events({ channels: ['lifecycle'] })).at(-1)!.event_id, seen.at(-1)!.event_id)
})

t.test('the classic stream of such a run is unchanged; other runs have no events of the protocol', async t => {
  const thread = randomUUID()
  const { command, events } = on(chat.url, thread)
  const { result } = await command('run.start', { assistant_id: 'chat', input: human('hello') })
  const seen = await events({ channels: ALL })
  const { frames } = await readStream(`${chat.url}/threads/${thread}/runs/${result.run_id}/stream`, {
    headers: { 'last-event-id': '-1' },
  })
  t.match(frames[0]!.data, String(result.run_id))
  t.equal(frames[0]!.event, 'metadata')
  t.notOk(frames.some(frame => frame.event === 'lifecycle' || frame.data.includes('"event_id"')))
  t.ok(frames.some(frame => frame.event === 'messages'))
  const body = { assistant_id: 'chat', input: human('classic'), stream_mode: 'values' }
  const classic = await readStream(`${chat.url}/threads/${thread}/runs/stream`, { method: 'POST', body })
  t.same(new Set(classic.frames.map(frame => frame.event)), new Set(['metadata', 'values']))
  await command('run.start', { assistant_id: 'chat', input: human('hello') })
  const next = await events({ channels: ALL, since: seen.at(-1)!.seq })
  t.equal(of(next, 'lifecycle').length, 2, 'only the run of the protocol is streamed')
})

const [{ connect: line1 }] = lines as [(typeof lines)[number]]

t.test('the official JavaScript SDK: client.threads.stream()', async t => {
  const thread = line1(chat.url).threads.stream({ assistantId: 'chat' })
  // All is requested before its run: the SDK ends these iterators when it receives the end of a run, and never ends one that
  // is requested after that.
  const { messages } = thread
  await thread.run.start({ input: human('hello there') })
  t.same(await textsOf(messages), ['You said: hello there'])
  t.match(await thread.output, { messages: [{ content: 'hello there' }, { content: 'You said: hello there' }] })
  const interrupt = await thread.subscribe('lifecycle')
  await thread.run.start({ input: human('may I?') })
  for await (const _ of interrupt);
  t.ok(thread.interrupted)
  t.match(thread.interrupts, [{ payload: { question: 'may I?' }, namespace: [] }])
  const { interruptId: interrupt_id } = thread.interrupts[0]!
  const end = await thread.subscribe('lifecycle')
  await thread.input.respond({ interrupt_id, namespace: [], response: 'sure' })
  for await (const _ of end);
  t.match(await thread.state.get({ namespace: [] }), {
    values: { messages: { length: 4, 3: { content: 'The answer was sure' } } },
  })
  await thread.close()

  const tools = line1(cluster.url).threads.stream({ assistantId: 'outer' })
  const { toolCalls, subgraphs } = tools
  await tools.run.start({ input: human('find it') })
  const calls: unknown[] = []
  const graphs: string[][] = []
  await Promise.all([
    (async () => {
      for await (const call of toolCalls) calls.push([call.name, typeof (await call.output)])
    })(),
    (async () => {
      for await (const graph of subgraphs) graphs.push(graph.namespace)
    })(),
  ])
  t.match(calls, [['lookup', /string|object/]])
  t.match(graphs, [[/^agent:/]])
  await tools.close()
})
