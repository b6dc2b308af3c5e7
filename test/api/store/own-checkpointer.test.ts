/** A checkpointer that the application brings (`checkpointer.path`): it has what Weft has stored, and loses what was deleted. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'
import { until } from '../../helpers/until.js'

const skip = withoutPython() ?? false
const app = join(root, 'test/apps/own-checkpointer-py')
t.setTimeout(240_000)

let python: string
let folder: string
let file: string
if (skip === false)
  t.before(async () => {
    python = await venvOf(join(root, 'test/apps/import-py/requirements.txt'))
    folder = mkdtempSync(join(tmpdir(), 'weft-own-checkpointer-'))
    file = join(folder, 'checkpoints.sqlite')
  })
t.teardown(() => folder && rmSync(folder, { recursive: true, force: true }))

const start = (path: string) =>
  startCluster({ app: path, env: { WEFT_PYTHON: python, WEFT_HOSTS: '2', OWN_CHECKPOINTS: file } })

interface Row {
  ns: string
  id: string
  parent: string | null
  values: { text?: string; answer?: string }
  source: string
  writes: string[]
}

/** The copies of a thread, newest first. */
async function copiesOf(thread_id: string): Promise<Row[]> {
  const { stdout } = await promisify(execFile)(python, [join(app, 'read.py'), file, thread_id])
  return JSON.parse(stdout) as Row[]
}

t.test('each checkpoint and write of a thread is copied', { skip }, async t => {
  const cluster = await start(app)
  t.match(cluster.output(), /gets a copy of each checkpoint of a thread, and Weft reads none of them/)
  const { threads, runs } = new Client({ apiUrl: cluster.url })
  const { thread_id } = await threads.create()
  const input = { text: 'hello' }
  for (const durability of ['sync', 'async'] as const) await runs.wait(thread_id, 'ask', { input, durability })

  await t.test('of runs, with their subgraphs and interrupts', async t => {
    const paused = await copiesOf(thread_id)
    t.ok(
      paused.some(({ writes }) => writes.includes('__interrupt__')),
      'the interrupt',
    )
    t.ok(paused.filter(({ ns }) => ns.startsWith('inner')).length > 1, 'the subgraph')
    await runs.wait(thread_id, 'ask', { command: { resume: 'fine' } })
    await threads.updateState(thread_id, { values: { text: 'changed' } })
    const [first] = (await threads.getHistory(thread_id, { limit: 100 })).slice(-1)
    await threads.updateState(thread_id, { values: { text: 'forked' }, checkpoint: first!.checkpoint })

    const history = await threads.getHistory(thread_id, { limit: 100 })
    const copies = (await copiesOf(thread_id)).filter(({ ns }) => ns === '')
    t.ok(history.length > 7)
    t.same(
      copies.map(({ id, parent, source }) => [id, parent, source]),
      history.map(({ checkpoint, parent_checkpoint, metadata }) => [
        checkpoint.checkpoint_id,
        parent_checkpoint?.checkpoint_id ?? null,
        metadata!.source,
      ]),
      'the same checkpoints with the same parents',
    )
    t.match(copies[0], { values: { text: 'forked' } })
    t.ok(copies.some(({ values }) => values.text === 'hello: fine' && values.answer === 'fine'))
  })

  await t.test('a checkpoint that cannot be copied fails its run', async t => {
    const { thread_id } = await threads.create()
    const failed = await runs.wait(thread_id, 'ask', { input: { text: 'break' }, raiseError: false })
    t.match(failed, {
      __error__: {
        error: 'CheckpointerFailedError',
        message: 'The checkpointer of the application failed: ConnectionError: the database is gone',
      },
    })
  })

  await t.test('a thread is deleted in both places, or in none', async t => {
    writeFileSync(`${file}.locked`, '')
    await t.rejects(threads.delete(thread_id), { message: /ConnectionError: the database is locked/ })
    t.match(await threads.get(thread_id), { thread_id })
    rmSync(`${file}.locked`)
    await threads.delete(thread_id)
    t.same(await copiesOf(thread_id), [])
    await t.rejects(threads.get(thread_id), { message: /404/ })
  })

  await cluster.stop()
  await until(() => cluster.output().match(/the checkpointer is closed/g)?.length === 2)
})

t.test('a checkpointer that cannot be opened stops the start', { skip }, async t => {
  for (const [path, reason] of [
    [`${app}/checkpointer.py:nothing`, 'is no checkpointer; expected a BaseCheckpointSaver'],
    [`${app}/checkpointer.py:silent`, 'must implement aput and aput_writes'],
    [`${app}/absent.py:open`, 'cannot be loaded: FileNotFoundError'],
  ] as const) {
    const described = join(folder, 'langgraph.json')
    writeFileSync(described, JSON.stringify({ graphs: { ask: `${app}/graphs.py:ask` }, checkpointer: { path } }))
    await t.rejects(start(described), { message: new RegExp(`checkpointer\\.path: .*${reason}`) })
  }
})
