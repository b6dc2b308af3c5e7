/** `weft import` of graphs in Python: from a server, and from databases that the library's own checkpointers wrote. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import { root } from '../../cli/root.js'
import { pathWithUv, venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { findPostgres } from '../../scripts/postgres/server.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { startPostgres } from '../helpers/stores/postgres-server.js'

const skip = withoutPython() ?? false
const app = join(root, 'test/apps/import-py')
/** Threads of test/apps/import-py/write.py. */
const [ASKED, ANSWERED, FUNCTION, NAMELESS] = [1, 2, 3, 4].map(n => `0196c0de-0000-7000-8000-00000000000${n}`) as [
  string,
  string,
  string,
  string,
]
const TEXT = '5 one tool 4611686018427387905'

t.setTimeout(420_000)

let python: string
let PATH: string
let folder: string
const open: Cluster[] = []
const start = async () => {
  const cluster = await startCluster({ app: 'test/apps/import-py', env: { WEFT_PYTHON: python, WEFT_HOSTS: '1' } })
  open.push(cluster)
  return cluster
}
if (skip === false)
  t.before(async () => {
    python = await venvOf(join(app, 'requirements.txt'))
    PATH = await pathWithUv()
    folder = t.testdir()
  })
t.teardown(() => Promise.all(open.map(cluster => cluster.stop())))

interface Printed {
  threads: { done: number; failed: number; notes: { [note: string]: number } }
  items: { done: number }
  not_brought: { kind: string; id: string; reason: string; refused: boolean }[]
}
type Values = { [key: string]: unknown; messages: { type: string }[] }

t.test('a server: messages and objects are rebuilt, and functions continue', { skip }, async t => {
  const [there, here] = await Promise.all([start(), start()])
  const [source, target] = [there, here].map(({ url }) => new Client({ apiUrl: url })) as [Client, Client]
  const input = { messages: [{ role: 'user', content: 'hello' }] }
  const run = async (graph: string, ...payloads: object[]) => {
    const { thread_id } = await source.threads.create()
    for (const payload of payloads) await source.runs.wait(thread_id, graph, payload)
    return thread_id
  }
  const asked = await run('agent', { input })
  const answered = await run('agent', { input }, { command: { resume: 'no' } })
  const called = await run('function', { input: { number: 2 } }, { input: { number: 3 } })
  const command = ['import', there.url, '--url', here.url, '--state', join(folder, 'server.jsonl'), '--json']
  const first = await runWeft(command)
  t.equal(first.code, 0, first.stderr)
  const printed = first.json() as Printed
  t.match(printed.threads, { done: 3, failed: 0 })
  t.same(printed.not_brought, [
    { kind: 'threads', id: called, reason: 'without the inputs of its function', refused: false },
  ])
  for (const id of [asked, answered, called]) {
    const [wanted, made] = await Promise.all([source, target].map(client => client.threads.getState(id)))
    t.same(made!.values, wanted!.values)
    t.same(made!.next, wanted!.next)
  }
  const states = await target.threads.getHistory(answered)
  t.equal(states.length, (await source.threads.getHistory(answered)).length, 'the whole history')
  t.match(await target.runs.wait(asked, 'agent', { command: { resume: 'yes' } }), { answer: `yes: ${TEXT}` })
  t.match(await target.runs.wait(called, 'function', { input: { number: 4 } }), { doubled: 8, before: { doubled: 6 } })

  const again = await runWeft(command)
  t.same(again.json(), printed, 'a second import brings nothing')
  t.equal(await target.threads.count(), 3)
})

const postgres = (() => {
  try {
    findPostgres()
    return true
  } catch {
    return false
  }
})()
const databases = [
  { name: 'langgraph-checkpoint-sqlite', items: 0, skip, url: async (_: Test) => join(folder, 'threads.sqlite') },
  {
    name: 'langgraph-checkpoint-postgres',
    items: 1,
    skip: skip || (postgres ? false : 'no PostgreSQL'),
    async url(t: Test) {
      const server = await startPostgres()
      t.teardown(() => server.stop())
      return server.url()
    },
  },
]
for (const database of databases)
  t.test(`${database.name}: a question is answered where it was asked`, { skip: database.skip }, async t => {
    const url = await database.url(t)
    await promisify(execFile)(python, ['-B', join(app, 'write.py'), url])
    const here = await start()
    const target = new Client({ apiUrl: here.url })
    const state = join(folder, `${database.name}.jsonl`)
    const command = ['import', url, '--url', here.url, '--state', state, '--json']
    const weft = (...more: string[]) => runWeft([...command, ...more], { PATH })
    const first = await weft()
    t.equal(first.code, 1, first.stderr)
    const printed = first.json() as Printed
    t.match(printed, { threads: { done: 3, failed: 1 }, items: { done: database.items } })
    const reasons = Object.fromEntries(printed.not_brought.map(({ id, reason }) => [id, reason]))
    t.match(reasons, {
      [ASKED]: /^objects were read as their members: agent\.Note, agent\.Order$/,
      [ANSWERED]: /^objects were read as their members: agent\.Note, agent\.Order$/,
      [FUNCTION]: /^without the inputs of its function$/,
      [NAMELESS]: /--graph/,
    })
    const named = await weft('--graph', 'agent')
    t.equal(named.code, 0, named.stderr)
    t.match(named.json(), { threads: { done: 4, failed: 0 } }, 'and nothing twice')

    const asked = await target.threads.getState<Values>(ASKED)
    t.same(asked.next, ['ask'])
    t.match(asked.values, {
      messages: [
        { type: 'human', content: 'hello', additional_kwargs: {} },
        {
          id: 'ai-1',
          tool_calls: [{ name: 'find', args: { q: 'x' }, id: 'call-1' }],
          invalid_tool_calls: [],
          usage_metadata: { total_tokens: 7 },
        },
        { id: 'tool-one', tool_call_id: 'call-1' },
        { id: 'tool-two' },
      ],
      order: { total: 5 },
      notes: [{ text: 'one' }, { text: 'two' }],
    })
    t.same((asked.values.messages[1] as unknown as { additional_kwargs: object }).additional_kwargs, {})
    t.same(
      (await target.threads.getHistory(ASKED)).map(({ next }) => next),
      [['ask'], ['take', 'take'], ['model'], ['__start__']],
    )
    t.match(await target.threads.get(ASKED), { status: 'interrupted', metadata: { graph_id: 'agent' } })
    for (const id of [ASKED, NAMELESS])
      t.match(await target.runs.wait(id, 'agent', { command: { resume: 'yes' } }), { answer: `yes: ${TEXT}` })
    t.match(await target.threads.getState(ANSWERED), { next: [], values: { answer: `no: ${TEXT}` } })
    t.match(await target.runs.wait(FUNCTION, 'function', { input: { number: 4 } }), {
      doubled: 8,
      before: { doubled: 6, before: { doubled: 4 } },
    })
    if (database.items > 0) t.match(await target.store.getItem(['users', 'ada'], 'colour'), { value: { is: 'green' } })
  })
