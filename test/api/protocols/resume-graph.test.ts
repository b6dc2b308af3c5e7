/** An answer reaches the graph that asked: a run of another graph that resumes the thread is refused. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { basicServer } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)

interface State {
  values: { path?: string[] }
  next: string[]
  tasks: { interrupts: { id: string; value: string }[] }[]
}
interface Run {
  run_id: string
  status: string
  cancel_reason: string | null
}

t.test('the graph that asked gets the answer', async t => {
  const server = await basicServer()
  t.teardown(() => server.stop())
  const send = sender(server.url)
  const resume = (assistant_id: string, given: unknown = 'yes') => ({ assistant_id, command: { resume: given } })
  const post = (thread_id: string, way: string, body: object) => send('POST', `/threads/${thread_id}${way}`, body)
  const wait = async (thread_id: string, body: object) => (await post(thread_id, '/runs/wait', body)).body
  const stateOf = async (thread_id: string) => (await send('GET', `/threads/${thread_id}/state`)).body as State
  const lastOf = async (thread_id: string) => ((await send('GET', `/threads/${thread_id}/history`)).body as State[])[0]!
  const runOf = async (thread_id: string, { run_id }: Run) =>
    (await send('GET', `/threads/${thread_id}/runs/${run_id}`)).body as Run
  /** A thread whose question waits for an answer. Its graph has no node that is also one of another graph here. */
  const asked = async () => {
    const thread_id = randomUUID()
    const body = { assistant_id: 'orders', input: {}, if_not_exists: 'create' }
    t.match(await wait(thread_id, body), { __interrupt__: [{ value: 'where to?' }] })
    return thread_id
  }
  /** A run of another graph is accepted, and cancelled before its start. */
  const dropRun = async (thread_id: string) => {
    const later = { assistant_id: 'echo', input: { text: 'x' }, after_seconds: 3_600 }
    const { run_id } = (await post(thread_id, '/runs', later)).body as Run
    await post(thread_id, `/runs/${run_id}/cancel?wait=true`, {})
    t.match(await send('GET', `/threads/${thread_id}`), { body: { metadata: { graph_id: 'echo' } } })
  }
  const question = { next: ['ask'], tasks: [{ interrupts: [{ value: 'where to?' }] }] }
  const says =
    /^command\.resume: the tasks of this thread wait for an answer to graph 'orders', .* is of graph 'echo'; answer with an assistant of graph 'orders'$/

  await t.test('every way to create a run on a thread refuses another graph, and changes nothing', async t => {
    const thread_id = await asked()
    const before = (await send('GET', `/threads/${thread_id}`)).body
    for (const way of ['/runs', '/runs/stream', '/runs/wait'])
      for (const given of ['yes', null, { any: 1 }])
        t.match(await post(thread_id, way, resume('echo', given)), { status: 409, body: { detail: says } }, way)
    const start = { id: 1, method: 'run.start', params: { assistant_id: 'echo', input: 'yes' } }
    t.match((await post(thread_id, '/commands', start)).body, {
      type: 'error',
      error: 'invalid_argument',
      message: says,
    })
    const { assistant_id } = (await send('GET', '/assistants/echo')).body as { assistant_id: string }
    const message = { role: 'user', messageId: 'm', contextId: thread_id, parts: [{ kind: 'text', text: 'x' }] }
    const rpc = { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message, command: { resume: 'yes' } } }
    t.match((await send('POST', `/a2a/${assistant_id}`, rpc)).body, { error: { code: -32602, message: says } })
    t.same((await send('GET', `/threads/${thread_id}`)).body, before)
    t.same((await send('GET', `/threads/${thread_id}/runs`)).body, [
      ...((await send('GET', `/threads/${thread_id}/runs?status=success`)).body as Run[]),
    ])

    const own = { graph_id: 'orders', name: 'another of the same graph' }
    const other = (await send('POST', '/assistants', own)).body as { assistant_id: string }
    t.match(await wait(thread_id, resume(other.assistant_id)), { path: ['answer yes'] })
  })

  await t.test('an assistant that was changed to another graph does not get the answer', async t => {
    const { assistant_id } = (await send('POST', '/assistants', { graph_id: 'orders' })).body as {
      assistant_id: string
    }
    const thread_id = randomUUID()
    await wait(thread_id, { assistant_id, input: {}, if_not_exists: 'create' })
    await send('PATCH', `/assistants/${assistant_id}`, { graph_id: 'echo' })
    t.match(await post(thread_id, '/runs', resume(assistant_id)), { status: 409, body: { detail: says } })
    const [id] = (await stateOf(thread_id)).tasks.flatMap(({ interrupts }) => interrupts.map(one => one.id))
    const respond = { id: 1, method: 'input.respond', params: { interrupt_id: id, response: 'yes', namespace: [] } }
    t.match((await post(thread_id, '/commands', respond)).body, { type: 'error', message: says })
    t.match(await wait(thread_id, resume('orders')), { path: ['answer yes'] })
  })

  await t.test('a thread that waits takes a new input of any graph, and waits for nothing then', async t => {
    const thread_id = await asked()
    t.match(await wait(thread_id, { assistant_id: 'echo', input: { text: 'x' } }), { seen: 'x' })
    t.equal((await post(thread_id, '/runs/wait', resume('echo'))).status, 200)
    t.equal((await post(thread_id, '/runs/wait', resume('orders'))).status, 200)
  })

  await t.test('a run of another graph that leaves nothing does not take the question with it', async t => {
    const thread_id = await asked()
    await dropRun(thread_id)
    const slow = { assistant_id: 'slow', input: { ms: 60_000 }, durability: 'sync' }
    const undone = (await post(thread_id, '/runs', slow)).body as Run
    await until(async () => (await runOf(thread_id, undone)).status === 'running')
    await post(thread_id, `/runs/${undone.run_id}/cancel?wait=true&action=rollback`, {})
    t.match(await stateOf(thread_id), question)
    t.match(await lastOf(thread_id), question)
    t.match(await send('GET', `/threads/${thread_id}`), {
      body: { status: 'interrupted', metadata: { graph_id: 'slow' } },
    })
    t.match(await post(thread_id, '/runs', resume('echo')), { status: 409, body: { detail: says } })
    const { thread_id: copy } = (await send('POST', `/threads/${thread_id}/copy`)).body as { thread_id: string }
    t.match(await post(copy, '/runs', resume('echo')), { status: 409, body: { detail: says } })
    t.match(await stateOf(copy), question)
    const [id] = (await stateOf(thread_id)).tasks.flatMap(({ interrupts }) => interrupts.map(one => one.id))
    const respond = { id: 1, method: 'input.respond', params: { interrupt_id: id, response: 'yes', namespace: [] } }
    t.match((await post(thread_id, '/commands', respond)).body, { type: 'success' })
    await until(async () => (await stateOf(thread_id)).next.length === 0)
    t.match(await stateOf(thread_id), { values: { path: ['answer yes'] } })
    t.match(await wait(copy, resume('orders')), { path: ['answer yes'] })
  })

  await t.test('an answer of another graph that waits in line ends without a start', async t => {
    const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
    const lined: Run[] = []
    for (const body of [
      { assistant_id: 'slow', input: { ms: 1_000 } },
      { assistant_id: 'orders', input: {} },
      resume('echo'),
    ])
      lined.push((await post(thread_id, '/runs', body)).body as Run)
    const refused = await until(async () => {
      const run = await runOf(thread_id, lined[2]!)
      return run.status !== 'pending' && run
    })
    t.match(refused, { status: 'interrupted', cancel_reason: new RegExp(`^refused: ${says.source.slice(1, -1)}$`) })
    t.match(await stateOf(thread_id), question)
    t.match(await send('GET', `/threads/${thread_id}`), { body: { status: 'interrupted' } })
    t.match(await wait(thread_id, resume('orders')), { path: ['answer yes'] })
  })

  await t.test(
    'an update belongs to the graph that asked, and an earlier checkpoint may be answered by its own',
    async t => {
      const thread_id = await asked()
      const before = await lastOf(thread_id)
      await dropRun(thread_id)
      const update = { values: { path: ['updated'] }, as_node: '__start__' }
      t.equal((await post(thread_id, '/state', update)).status, 200)
      t.match(await post(thread_id, '/runs', resume('echo')), { status: 409, body: { detail: says } })
      t.match(await wait(thread_id, resume('orders')), { path: ['updated', 'answer yes'] })
      const { checkpoint_id } = (before as unknown as { checkpoint: { checkpoint_id: string } }).checkpoint
      t.match(await wait(thread_id, { ...resume('orders', 'again'), checkpoint_id }), { path: ['answer again'] })
    },
  )
})
