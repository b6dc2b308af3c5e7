/** `weft threads answer`: the question of a thread is shown, and answered by the assistant that asked. */
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'

t.setTimeout(120_000)

const here = await startCluster({ app: 'test/apps/basic' })
t.teardown(() => here.stop())
const weft = (...args: string[]) => runWeft(args, { WEFT_URL: here.url })

t.test('a question is shown and answered, by the assistant that asked', async t => {
  const client = new Client({ apiUrl: here.url })
  const asked = async (graph: string, input: object) => {
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, graph, { input: { ...input } })
    return thread_id
  }
  const answer = async (thread_id: string, ...flags: string[]) => {
    const ended = await weft('threads', 'answer', thread_id, '--json', ...flags)
    t.equal(ended.code, 0, ended.stderr)
    const { run_id } = ended.json() as { run_id: string }
    await client.runs.join(thread_id, run_id)
    return (await client.threads.getState<{ [name: string]: unknown }>(thread_id)).values
  }
  const own = await client.assistants.create({ graphId: 'ask', name: 'of the question' })
  const thread_id = await asked(own.assistant_id, { question: 'really?' })
  t.match((await weft('threads', 'answer', thread_id)).stdout, /"question": "really\?"[\s\S]*--approve/)
  t.match(await answer(thread_id, '--approve'), { answer: { given: true } })
  t.match(await client.threads.get(thread_id), { status: 'idle', metadata: { assistant_id: own.assistant_id } })
  t.match(await weft('threads', 'answer', thread_id, '--approve'), { code: 1, stderr: /waits with no question/ })

  t.match(await answer(await asked('ask', {}), '--reject'), { answer: { given: false } })
  t.match(await answer(await asked('ask', {}), '--value', '{"n":1}'), { answer: { given: { n: 1 } } })
  const gone = await client.assistants.create({ graphId: 'ask', name: 'deleted' })
  const orphan = await asked(gone.assistant_id, {})
  await client.assistants.delete(gone.assistant_id)
  t.match(await answer(orphan, '--approve'), { answer: { given: true } })

  const two = await asked('asks', { names: ['ada', 'bob'] })
  const questions = ((await weft('threads', 'answer', two, '--json')).json() as { questions: { id: string }[] })
    .questions
  t.equal(questions.length, 2)
  t.match(await weft('threads', 'answer', two, '--value', '1'), { code: 2, stderr: questions[1]!.id })
  await answer(two, '--value', '1', '--question', questions[0]!.id)
  t.match(await answer(two, '--value', '2'), { answers: [1, 2] })

  for (const [flags, code, sentence] of [
    [['--approve', '--reject'], 2, /expected one of --approve, --reject and --value/],
    [['--value', 'yes'], 2, /--value must be JSON, a text in quotes as '"yes"', not yes/],
    [['--approve', '--question', 'x'], 1, /no question x waits/],
    [['--reject', 'because'], 2, /this question takes no reason/],
  ] as const) {
    const ended = await weft('threads', 'answer', await asked('ask', {}), ...flags)
    t.equal(ended.code, code, ended.stderr)
    t.match(ended.stderr, sentence)
  }
})
