import t from 'tap'
import { basicServer } from '../helpers/cluster.js'
import { linesOnStore } from '../helpers/sdk.js'

type Values = { [name: string]: unknown }

t.test('the whole run payload through the official SDK', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const stream = async (graph: string, payload: object, thread_id: string | null = null) => {
        const parts: { event: string; data: Values }[] = []
        for await (const part of client.runs.stream(thread_id as string, graph, payload as never))
          parts.push(part as never)
        return parts
      }

      await t.test('only the requested modes, each under its name', async t => {
        const names = {
          values: 'values',
          updates: 'updates',
          debug: 'debug',
          tasks: 'tasks',
          checkpoints: 'checkpoints',
          events: 'events',
        } as const
        for (const [mode, event] of Object.entries(names)) {
          const parts = await stream('counter', { input: { steps: 2 }, streamMode: mode })
          t.same([...new Set(parts.map(part => part.event))], ['metadata', event], mode)
        }
        const all = await stream('counter', { input: { steps: 2 }, streamMode: Object.keys(names) })
        t.same(new Set(all.map(part => part.event)), new Set(['metadata', ...Object.values(names)]))
      })

      await t.test('messages: accumulated, and as tuples', async t => {
        const input = { messages: [{ role: 'user', content: 'hi' }] }
        const whole = 'every token must arrive, also the last one.'
        const parts = await stream('model', { input, streamMode: 'messages' })
        const partial = parts
          .filter(part => part.event === 'messages/partial')
          .map(part => (part.data as unknown as [{ content: string }])[0].content)
        t.equal(partial.at(-1), whole)
        t.ok(
          partial.every((text, i) => i === 0 || text.startsWith(partial[i - 1]!)),
          'each partial is the text so far',
        )
        t.ok(parts.some(part => part.event === 'messages/metadata'))
        t.ok(
          parts.some(
            part =>
              part.event === 'messages/complete' &&
              (part.data as unknown as { content: string }[])[0]!.content === whole,
          ),
        )
        const tuples = await stream('model', { input, streamMode: ['messages-tuple', 'values'] })
        t.equal(
          tuples
            .filter(part => part.event === 'messages')
            .map(part => (part.data as unknown as [{ content: string }])[0].content)
            .join(''),
          whole,
        )
      })

      await t.test('subgraphs: events are named by their path on request', async t => {
        const without = await stream('nested', { input: {}, streamMode: ['updates', 'custom'] })
        t.notOk(without.some(part => part.event.includes('|')))
        const parts = await stream('nested', { input: {}, streamMode: ['updates', 'custom'], streamSubgraphs: true })
        t.ok(parts.some(part => /^updates\|sub:[0-9a-f-]+$/.test(part.event)))
        t.ok(parts.some(part => /^custom\|sub:[0-9a-f-]+$/.test(part.event)))
      })

      await t.test('breakpoints: stop before a node, continue with null input', async t => {
        const { thread_id } = await client.threads.create()
        const parts = await stream(
          'fail',
          { input: { message: 'x' }, streamMode: 'values', interruptBefore: ['bad'] },
          thread_id,
        )
        t.same(parts.at(-1), { ...parts.at(-1), event: 'values', data: { __interrupt__: [] } })
        t.match(await client.threads.get(thread_id), { status: 'interrupted', interrupts: {} })
        t.same((await client.threads.getState(thread_id)).next, ['bad'])
        await t.rejects(client.runs.wait(thread_id, 'fail', { input: null }), /TooBadError: x/)
      })

      await t.test('command: update and goto', async t => {
        const { thread_id } = await client.threads.create()
        await client.runs.wait(thread_id, 'counter', { input: { steps: 2 } })
        const values = await client.runs.wait(thread_id, 'counter', {
          command: { update: { steps: 4 }, goto: 'count' },
        })
        t.match(values, { numbers: [1, 2, 3, 4] })
      })

      await t.test('a fork from an older checkpoint', async t => {
        const { thread_id } = await client.threads.create()
        await client.runs.wait(thread_id, 'counter', { input: { steps: 1 } })
        const { checkpoint } = await client.threads.getState(thread_id)
        await client.runs.wait(thread_id, 'counter', { input: { steps: 3 } })
        const { checkpoint_id, checkpoint_ns } = checkpoint!
        const values = await client.runs.wait(thread_id, 'counter', {
          input: { steps: 2 },
          checkpoint: { checkpoint_id, checkpoint_ns } as never,
        })
        t.match(values, { numbers: [1, 2] })
        t.match((await client.threads.get(thread_id)).values, { numbers: [1, 2] }, 'the fork is the newest')
      })

      await t.test('recursion limit', async t => {
        await t.rejects(
          client.runs.wait(null, 'counter', { input: { steps: 50 }, config: { recursion_limit: 5 } }),
          /GraphRecursionError/,
        )
      })

      await t.test('metadata reaches the run and its checkpoints', async t => {
        const { thread_id } = await client.threads.create()
        const run = await client.runs.create(thread_id, 'counter', {
          input: { steps: 1 },
          metadata: { ticket: 7 },
          config: { configurable: { who: 'ada' } },
        })
        await client.runs.join(thread_id, run.run_id)
        t.match((await client.runs.get(thread_id, run.run_id)).metadata, { ticket: 7 })
        t.match((await client.threads.getState(thread_id)).metadata, {
          ticket: 7,
          run_id: run.run_id,
          graph_id: 'counter',
        })
      })
    })
  }
})
