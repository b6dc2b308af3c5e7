/** The answers to clients of an agent with one tool, and of that agent as a subgraph, on each served version of LangGraph. */
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { libraryLines } from '../helpers/lines.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(180_000)

interface V2Event {
  method: string
  params: { namespace: string[]; data: { event: string; content?: { text?: string } } }
}

const input = { messages: [{ type: 'human', content: 'What is 2 + 3?', id: 'm0' }] }
const [{ connect: connectV1 }] = lines as [(typeof lines)[number]]

for (const line of libraryLines) {
  t.test(line.name, async t => {
    const app = line.app('lines')
    const cluster = await startCluster({ app: app.path })
    t.teardown(async () => {
      await cluster.stop()
      app.remove()
    })

    const info = (await (await fetch(`${cluster.url}/info`)).json()) as { langgraph_js_version: string }
    t.equal(info.langgraph_js_version, line.version)

    for (const { name, connect } of lines) {
      t.test(`${name}: tokens of subgraphs under their names, whole states, a question and its answer`, async t => {
        const client = connect(cluster.url)
        const { thread_id } = await client.threads.create()
        const texts = new Map<string, string>()
        const names = new Set<string>()
        let last: { messages?: { type: string; content: string }[] } = {}
        for await (const { event, data } of client.runs.stream(thread_id, 'outer', {
          input,
          streamMode: ['messages-tuple', 'values'],
          streamSubgraphs: true,
        })) {
          names.add(event.replace(/:[0-9a-f-]{36}/g, ''))
          if (event === 'values') last = data as typeof last
          if (!event.startsWith('messages')) continue
          const [{ id, type, content }] = data as unknown as [{ id: string; type: string; content: string }]
          if (type !== 'human') texts.set(id, (texts.get(id) ?? '') + content)
        }
        for (const expected of ['values', 'values|sub', 'values|sub|agent', 'messages', 'messages|sub|agent'])
          t.ok(names.has(expected), expected)
        t.same([...texts.values()], ['I add.', '5', 'The sum is 5', 'noted'])
        t.same(
          last.messages?.map(({ type, content }) => `${type} ${content}`),
          ['human What is 2 + 3?', 'ai I add.', 'tool 5', 'ai The sum is 5', 'ai noted'],
        )

        // 0.2.20 has no `interrupt`.
        if (line.version.startsWith('0.2')) return
        const other = await client.threads.create()
        const asked = await client.runs.wait(other.thread_id, 'ask', { input: { question: 'why?' } })
        t.match(asked, { __interrupt__: [{ value: { question: 'why?' } }] })
        const answered = await client.runs.wait(other.thread_id, 'ask', { command: { resume: 'because' } })
        t.match(answered, { question: 'why?', answer: 'because' })
        t.equal((await client.threads.getHistory(other.thread_id)).at(0)?.next.length, 0)
      })

      if (line.agents)
        t.test(
          `${name}: a question of the functional API is answered without the result of the run before`,
          async t => {
            const client = connect(cluster.url)
            const { thread_id } = await client.threads.create()
            t.same(await client.runs.wait(thread_id, 'review', { input: { text: 'one' } }), { result: 'one' })
            const asked = (await client.runs.wait(thread_id, 'review', { input: { text: 'two' } })) as object
            t.match(asked, { __interrupt__: [{ value: { review: 'two' } }] })
            t.same(Object.keys(asked), ['__interrupt__'])
            const [run] = await client.runs.list(thread_id)
            t.same(await client.runs.join(thread_id, run!.run_id), asked, 'also for who asks later')
            t.match((await client.threads.get(thread_id)).values, { result: 'one' }, 'the state of the thread has it')
            t.same(await client.runs.wait(thread_id, 'review', { command: { resume: 'fine' } }), { result: 'two fine' })
          },
        )
    }

    t.test('protocol v2 by the SDK: messages are put together as the state has them', async t => {
      const thread = connectV1(cluster.url).threads.stream({ assistantId: 'agent' })
      const { messages } = thread
      await thread.run.start({ input })
      const seen: string[] = []
      for await (const message of messages) {
        let text = ''
        for await (const part of message.text) text += part
        const calls = await message.toolCalls
        seen.push(
          `${text}${calls.length > 0 ? ` ${calls.map(({ name, args }) => `${name} ${JSON.stringify(args)}`)}` : ''}`,
        )
      }
      t.same(seen, ['I add. add {"a":2,"b":3}', '5', 'The sum is 5'])
      t.match(await thread.output, { messages: { length: 4, 3: { content: 'The sum is 5' } } })
      await thread.close()
    })

    t.test('protocol v2 by the SDK: messages and tools of a subgraph are those of the subgraph', async t => {
      const thread = connectV1(cluster.url).threads.stream({ assistantId: 'outer' })
      const subscription = await thread.subscribe({ channels: ['messages', 'tools'] })
      await thread.run.start({ input })
      const texts = new Map<string, string>()
      const calls: string[] = []
      for await (const { method, params } of subscription as AsyncIterable<V2Event>) {
        const graph = params.namespace.map(segment => segment.split(':')[0]).join('|')
        const { data } = params
        if (method === 'tools') calls.push(`${graph} ${data.event}`)
        else if (data.event === 'content-block-finish' && data.content?.text !== undefined) {
          const text = data.content.text
          if (text !== input.messages[0]!.content) texts.set(text, graph)
        }
      }
      t.same([...texts].toSorted(), [
        ['5', 'sub|agent'],
        ['I add.', 'sub|agent'],
        ['The sum is 5', 'sub|agent'],
        ['noted', ''],
      ])
      t.same(calls, line.tools ? ['sub|agent tool-started', 'sub|agent tool-finished'] : [])
      await thread.close()
    })
  })
}
