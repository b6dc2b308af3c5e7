/** Agents of deepagents whose subagents are runs on this server: the examples delegate and delegate-ts. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { packagesOf } from '../../applications/install.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { commandLineOf } from '../../helpers/processes.js'
import { lines } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'
import { execute, readmeOf } from './readmes.js'

t.setTimeout(400_000)

const HOST = /host-python\/start\.py|programs\/host\.js/
const PAGES = ['moon', 'sun', 'coast']
// A script is the model, and a page takes longer than a call of the API.
const ENV = { OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '', MODEL: '', PAGE_SECONDS: '2' }

interface Values {
  messages?: { type: string; content: string }[]
  async_tasks?: { [id: string]: { thread_id: string; run_id: string; status: string } }
  asyncTasks?: { [id: string]: { threadId: string; runId: string; status: string } }
}

/** A folder with the files of the example, that finds its packages. */
async function copyOf(t: Test, name: string, place: string): Promise<string> {
  const folder = mkdtempSync(join(place, `${name}-`))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(root, 'examples', name), folder, { recursive: true })
  return folder
}

/** The steps of a person with the lead of a server. */
function talk(cluster: Cluster, lead = 'lead') {
  const client = lines[0]!.connect(cluster.url)
  const thread = client.threads.create()
  const last = ({ messages = [] }: Values) => messages.at(-1)?.content ?? ''
  const valuesOf = async () => (await client.threads.getState<Values>((await thread).thread_id)).values
  return {
    client,
    thread,
    /** Its answer. */
    async say(content: string): Promise<string> {
      const input = { messages: [{ role: 'user', content }] }
      return last((await client.runs.wait((await thread).thread_id, lead, { input })) as unknown as Values)
    },
    /** The tasks that it has started. */
    async tasks() {
      const { async_tasks = {}, asyncTasks = {} } = await valuesOf()
      const inJavaScript = Object.values(asyncTasks).map(({ threadId, runId, status }) => ({
        ...{ thread_id: threadId, run_id: runId, status },
      }))
      return [...Object.values(async_tasks), ...inJavaScript]
    },
    reported: () => until(async () => /^The researcher says: The moon/.test(last(await valuesOf())), 60_000),
  }
}

const skip = withoutPython() ?? false
const LANGUAGES = [
  { name: 'delegate', skip, place: async () => tmpdir() },
  { name: 'delegate-ts', skip: false, place: () => packagesOf('javascript') },
]
for (const { name, skip, place } of LANGUAGES)
  t.test(name, { skip }, async t => {
    const python = skip === false ? await venvOf(join(root, 'test/api/examples/requirements.txt')) : ''
    const app = await copyOf(t, name, await place())
    if (name === 'delegate') addAsker(app)
    const cluster = await startCluster({ app, env: { ...ENV, WEFT_PYTHON: python, WEFT_HOSTS: '1' } })
    t.teardown(() => cluster.stop())

    await t.test('the code of its README prints what it says', async t => {
      const blocks = readmeOf(name)
      t.ok(blocks.length > 0)
      for (const block of blocks)
        t.equal(await execute(block, cluster.url, python, lines[0]!.alias), block.prints, block.language)
    })

    await t.test('a task is a run that its lead lists, updates and cancels', async t => {
      const { client, say, tasks } = talk(cluster)
      t.match(await say('research why is the sea salty?'), /^Launched async subagent/)
      const [first] = await tasks()
      t.match(await say('status'), new RegExp(`${first!.thread_id} +agent: researcher +status: (pending|running)`))
      t.match(await say('also look at the lakes'), /^Updated async subagent/)
      const [second] = await tasks()
      t.equal(second!.thread_id, first!.thread_id)
      t.not(second!.run_id, first!.run_id)
      t.match(await say('stop'), /^Cancelled async subagent/)
      t.match((await tasks())[0], { run_id: second!.run_id, status: 'cancelled' })
      const { thread_id } = first!
      for (const { run_id } of [first!, second!]) await client.runs.join(thread_id, run_id)
      const statuses = (await client.runs.list(thread_id)).map(({ run_id, status }) => ({ run_id, status }))
      t.same(
        statuses,
        [second, first].map(task => ({ run_id: task!.run_id, status: 'interrupted' })),
      )
    })

    await t.test('a tool that takes long goes on behind its last page when its host dies', async t => {
      const { client, thread, reported } = talk(cluster)
      const callbackThreadId = name === 'delegate-ts' ? { callbackThreadId: (await thread).thread_id } : {}
      const { thread_id } = await client.threads.create()
      const input = { messages: [{ role: 'user', content: 'why are there tides?' }], ...callbackThreadId }
      const read: string[] = []
      for await (const { event, data } of client.runs.stream(thread_id, 'researcher', {
        input,
        streamMode: 'custom',
      })) {
        if (event !== 'custom') continue
        read.push((data as { reads: string }).reads)
        if (read.join() === PAGES.join()) killHosts(cluster)
      }
      t.same(read.slice(0, 3), PAGES)
      t.equal(read.at(-1), 'coast', 'the page that was being read is read again')
      // The result of the second page may be under way when the host dies.
      t.notOk(read.slice(3).includes('moon'), 'one whose result is stored is not')
      const { values, metadata } = await client.threads.getState<Values>(thread_id)
      t.match(values.messages!.at(-1)!.content, /^The moon .* The sun .* A coast /)
      t.equal((metadata as { run_attempt?: number }).run_attempt, 2)
      if (name === 'delegate-ts') await reported()
    })

    if (name !== 'delegate') return
    await t.test('a task waits for a person, whose answer wakes the lead of the thread', async t => {
      const { client, thread, say, tasks, reported } = talk(cluster, 'asker_lead')
      await say('research why are there tides?')
      const [task] = await tasks()
      await client.runs.join(task!.thread_id, task!.run_id)
      t.equal((await client.threads.get(task!.thread_id)).status, 'interrupted')
      t.equal(await say('status'), 'The researcher is waiting')
      const command = { resume: { decisions: [{ type: 'approve' }] } }
      await client.runs.wait(task!.thread_id, 'asker', { command })
      await reported()
      const found = await client.threads.search({ metadata: { parent_thread_id: (await thread).thread_id } })
      t.same(
        found.map(({ thread_id }) => thread_id),
        [task!.thread_id],
      )
    })
  })

/** Graphs that the example does not have. */
function addAsker(app: string): void {
  cpSync(join(root, 'test/api/examples/asker.py'), join(app, 'asker.py'))
  const file = join(app, 'langgraph.json')
  const description = JSON.parse(readFileSync(file, 'utf8')) as { graphs: object }
  const graphs = { ...description.graphs, asker: './asker.py:asker', asker_lead: './asker.py:lead' }
  writeFileSync(file, JSON.stringify({ ...description, graphs }))
}

function killHosts(cluster: Cluster): void {
  for (const pid of cluster.pids()) if (HOST.test(commandLineOf(pid))) process.kill(pid, 'SIGKILL')
}
