import t from 'tap'
import { basicServer } from '../helpers/cluster.js'
import { linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'

type Values = { [name: string]: unknown }

t.test('through the official SDK', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)

      await t.test('assistants', async t => {
        const system = await client.assistants.get('echo')
        t.match(system, {
          graph_id: 'echo',
          name: 'echo',
          version: 1,
          metadata: { created_by: 'system' },
          config: {},
          context: {},
          description: null,
        })
        const made = await client.assistants.create({
          graphId: 'echo',
          name: 'Mine',
          metadata: { a: { b: [1, null] }, __proto__x: 1 },
          config: { configurable: { x: 1 } },
        })
        t.match(made, {
          graph_id: 'echo',
          name: 'Mine',
          version: 1,
          metadata: { a: { b: [1, null] } },
          config: { configurable: { x: 1 } },
          context: {},
        })
        const both = { configurable: { x: 1 }, context: { y: 2 } }
        const { context, configurable } = both
        await t.rejects(client.assistants.create({ graphId: 'echo', config: { configurable }, context }), /HTTP 400/)
        await t.rejects(client.assistants.update(made.assistant_id, { config: { configurable }, context }), /HTTP 400/)
        await t.rejects(
          client.runs.wait(null, 'echo', { config: { configurable }, context, raiseError: false }),
          /HTTP 400.*either context or config\.configurable/,
        )
        const withContext = await client.assistants.create({ graphId: 'echo', config: { configurable: {} }, context })
        t.match(withContext, { config: {}, context: { y: 2 } }, 'an empty one is none')
        t.match(
          await client.runs.wait(null, withContext.assistant_id, { input: { text: 'a' }, config: { configurable } }),
          { seen: 'a' },
        )
        t.same(await client.assistants.get(made.assistant_id), made)
        t.same(
          await client.assistants.create({
            graphId: 'counter',
            assistantId: made.assistant_id,
            ifExists: 'do_nothing',
          }),
          made,
        )
        await t.rejects(client.assistants.create({ graphId: 'echo', assistantId: made.assistant_id }), /HTTP 409/)
        await t.rejects(client.assistants.create({ graphId: 'nope' }), /HTTP 404.*Graph 'nope' not found/)
        await t.rejects(client.assistants.get('0198f2a5-0000-7000-8000-000000000000'), /HTTP 404/)
        await t.rejects(client.assistants.get('not-a-uuid'), /HTTP 422/)
      })

      await t.test('threads', async t => {
        const thread = await client.threads.create({ metadata: { user: 'ada' } })
        t.match(thread, { status: 'idle', metadata: { user: 'ada' }, values: null, interrupts: {} })
        t.same(Object.keys(thread.metadata!), ['user'])
        t.same(await client.threads.get(thread.thread_id), thread)
        t.match(await client.threads.getState(thread.thread_id), { values: {}, next: [], tasks: [], checkpoint: null })
        await t.rejects(client.threads.create({ threadId: thread.thread_id }), /HTTP 409/)
        t.same(
          await client.threads.create({ threadId: thread.thread_id, ifExists: 'do_nothing', metadata: { other: 1 } }),
          thread,
        )
        await t.rejects(client.threads.get('0198f2a5-0000-7000-8000-000000000000'), /HTTP 404.*not found/)
      })

      await t.test('wait, state and run of a thread', async t => {
        const { thread_id } = await client.threads.create()
        const values = await client.runs.wait(thread_id, 'counter', { input: { steps: 3 } })
        t.match(values, { numbers: [1, 2, 3] })
        const thread = await client.threads.get(thread_id)
        t.match(thread, { status: 'idle', values: { numbers: [1, 2, 3] }, metadata: { graph_id: 'counter' } })
        const state = await client.threads.getState(thread_id)
        t.match(state, {
          values: { numbers: [1, 2, 3] },
          next: [],
          checkpoint: { thread_id, checkpoint_ns: '' },
          metadata: { source: 'loop', step: 3 },
        })
        const more = await client.runs.wait(thread_id, 'counter', { input: { steps: 5 }, durability: 'sync' })
        t.match(more, { numbers: [1, 2, 3, 4, 5] }, 'the thread continues from its last checkpoint')
        t.match(await client.runs.wait(thread_id, 'counter', { input: { steps: 6 }, durability: 'exit' }), {
          numbers: [1, 2, 3, 4, 5, 6],
        })
      })

      await t.test('a background run: create, get, join, join its stream', async t => {
        const { thread_id } = await client.threads.create()
        const run = await client.runs.create(thread_id, 'counter', { input: { steps: 4 }, metadata: { mine: true } })
        t.match(run, {
          thread_id,
          status: 'pending',
          multitask_strategy: 'enqueue',
          metadata: { mine: true, graph_id: 'counter' },
        })
        t.match(await client.runs.join(thread_id, run.run_id), { numbers: [1, 2, 3, 4] })
        t.match(await client.runs.get(thread_id, run.run_id), { run_id: run.run_id, status: 'success' })
        const parts = []
        for await (const part of client.runs.joinStream(thread_id, run.run_id)) parts.push(part)
        t.equal(parts[0]!.event, 'metadata')
        t.match(parts.at(-1), { event: 'values', data: { numbers: [1, 2, 3, 4] } })
        const other = await client.threads.create()
        await t.rejects(client.runs.get(other.thread_id, run.run_id), /HTTP 404.*Run not found/)
        await t.rejects(client.runs.join(thread_id, thread_id), /HTTP 404/)
      })

      await t.test('streams: metadata first, requested modes, ids from 0', async t => {
        const { thread_id } = await client.threads.create()
        const parts = []
        for await (const part of client.runs.stream(thread_id, 'counter', {
          input: { steps: 2 },
          streamMode: ['values', 'updates'],
        }))
          parts.push(part)
        t.same(Object.keys(parts[0]!.data as Values).sort(), ['attempt', 'run_id'])
        t.same(
          parts.map(part => part.event),
          ['metadata', 'values', 'updates', 'values', 'updates', 'values'],
        )
        t.same(
          parts.map(part => part.id),
          parts.map((_, i) => `${i}`),
        )
        const tokens = []
        for await (const part of client.runs.stream(null, 'model', {
          input: { messages: [{ role: 'user', content: 'hi' }] },
          streamMode: 'messages-tuple',
        }))
          tokens.push(part)
        const text = tokens
          .filter(part => part.event === 'messages')
          .map(part => (part.data as unknown as [{ content: string; type: string }])[0].content)
        t.equal(text.join(''), 'every token must arrive, also the last one.')
      })

      await t.test('interrupt and resume, also with null', async t => {
        for (const answer of ['yes', null]) {
          const { thread_id } = await client.threads.create()
          const stopped = (await client.runs.wait(thread_id, 'ask', { input: { question: 'really?' } })) as Values
          t.match(stopped, { __interrupt__: [{ value: { question: 'really?' } }] })
          const thread = await client.threads.get(thread_id)
          t.equal(thread.status, 'interrupted')
          const [[task, raised]] = Object.entries(thread.interrupts) as [[string, unknown[]]]
          const state = await client.threads.getState(thread_id)
          t.match(state, { next: ['node'], tasks: [{ id: task, interrupts: raised }] })
          const done = (await client.runs.wait(thread_id, 'ask', { command: { resume: answer } })) as Values
          t.match(done, { answer: { given: answer } })
          t.match(await client.threads.get(thread_id), { status: 'idle', interrupts: {} })
        }
      })

      await t.test('state with subgraphs', async t => {
        const { thread_id } = await client.threads.create()
        await client.runs.wait(thread_id, 'nested', { input: {} })
        const plain = await client.threads.getState(thread_id)
        t.equal(plain.tasks[0]!.state ?? null, null)
        t.match(plain.tasks[0]!.checkpoint, { thread_id })
        const whole = await client.threads.getState(thread_id, undefined, { subgraphs: true })
        t.match(whole.tasks[0]!.state, { next: ['asking'], values: { numbers: [1, 2] } })
        t.match(await client.runs.wait(thread_id, 'nested', { command: { resume: 3 } }), { numbers: [1, 1, 2, 3] })
      })

      await t.test('errors reach stream, wait, join and thread', async t => {
        const { thread_id } = await client.threads.create()
        await t.rejects(client.runs.wait(thread_id, 'fail', { input: {} }), /TooBadError: too bad/)
        t.match(await client.threads.get(thread_id), {
          status: 'error',
          error: { error: 'TooBadError', message: 'too bad' },
        })
        const parts = []
        for await (const part of client.runs.stream(null, 'fail', { input: {} })) parts.push(part)
        t.match(parts.at(-1), { event: 'error', data: { error: 'TooBadError', message: 'too bad' } })
        const run = await client.runs.create(thread_id, 'fail', { input: { message: 'again' } })
        t.match(await client.runs.join(thread_id, run.run_id), {
          __error__: { error: 'TooBadError', message: 'again' },
        })
        t.match(await client.runs.get(thread_id, run.run_id), { status: 'error' })
      })

      await t.test('runs of a thread wait, in the order of acceptance', async t => {
        const { thread_id } = await client.threads.create()
        const runs = []
        for (let i = 1; i <= 10; i++) runs.push(await client.runs.create(thread_id, 'counter', { input: { steps: i } }))
        await client.runs.join(thread_id, runs.at(-1)!.run_id)
        t.match(await client.threads.get(thread_id), {
          status: 'idle',
          values: { numbers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] },
        })
        const all = await Promise.all(runs.map(run => client.runs.get(thread_id, run.run_id)))
        t.ok(all.every(run => run.status === 'success'))
      })

      await t.test('if_not_exists and on_completion', async t => {
        const thread_id = crypto.randomUUID()
        await t.rejects(client.runs.wait(thread_id, 'echo', { input: {} }), /HTTP 404/)
        t.match(await client.runs.wait(thread_id, 'echo', { input: { text: 'x' }, ifNotExists: 'create' }), {
          text: 'x',
          seen: 'x',
        })
        let created: { run_id: string; thread_id?: string } | undefined
        await client.runs.wait(null, 'echo', { input: { text: 'x' }, onRunCreated: run => void (created = run) })
        t.match(created?.run_id, /^[0-9a-f-]{36}$/)
      })

      await t.test('the config of an assistant applies to its runs', async t => {
        const made = await client.assistants.create({ graphId: 'factory', config: { configurable: { who: 'grace' } } })
        t.match(await client.runs.wait(null, made.assistant_id, { input: {} }), { who: 'grace' })
        t.match(
          await client.runs.wait(null, made.assistant_id, { input: {}, config: { configurable: { who: 'ada' } } }),
          { who: 'ada' },
        )
      })
    })
  }

  await t.test('a documented but unsupported field is refused, never ignored', async t => {
    const post = async (body: object) => {
      const response = await fetch(`${cluster.url}/runs/wait`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ assistant_id: 'echo', input: {}, ...body }),
      })
      return { status: response.status, ...((await response.json()) as object) }
    }
    t.match(await post({ webhook: 'http://127.0.0.1:1/' }), { status: 422, detail: /webhook/ })
    t.match(await post({ stream_mode: 'nonsense' }), { status: 422, detail: /stream_mode/ })
    t.match(
      await post({
        multitask_strategy: 'enqueue',
        after_seconds: 0,
        webhook: null,
        feedback_keys: [],
        stream_subgraphs: false,
        unknown: 1,
      }),
      { status: 200 },
    )
  })

  await t.test('on_disconnect: cancel stops the run, continue does not', async t => {
    const body = { assistant_id: 'chunks', input: { count: 200, delay_ms: 20 }, stream_mode: 'custom' }
    const runOf = (frame: { data: string }) => (JSON.parse(frame.data) as { run_id: string }).run_id
    const ends = async (run_id: string) => {
      const rest = await readStream(`${cluster.url}/runs/${run_id}/stream`, { headers: { 'last-event-id': '-1' } })
      return rest.frames.length
    }
    const cancelled = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body, stopAfter: 5 })
    t.ok((await ends(runOf(cancelled.frames[0]!))) < 150, 'stopped long before its end')
    const goesOn = await readStream(`${cluster.url}/runs/stream`, {
      method: 'POST',
      body: { ...body, on_disconnect: 'continue' },
      stopAfter: 5,
    })
    t.equal(await ends(runOf(goesOn.frames[0]!)), 201)
    const graced = await readStream(`${cluster.url}/runs/stream`, {
      method: 'POST',
      body: { ...body, stream_resumable: true },
      stopAfter: 5,
    })
    t.equal(await ends(runOf(graced.frames[0]!)), 201, 'who comes back within the grace loses nothing')
  })
})
