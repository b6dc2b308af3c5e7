/** The commands that call a server: `weft runs`, `threads`, `deploy`, `import`. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { filesOf } from '../../cli/commands/upload.js'
import { spawnWeft, startCluster } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
const folder = t.testdir({
  app: {
    'langgraph.json': '{"graphs":{"small":"./small.mjs:graph"}}',
    'small.mjs': `import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ n: Annotation() })).addNode('a', () => ({ n: 1 })).addEdge('__start__', 'a').compile()`,
  },
})
const KEY = 'a-control-key-for-tests'
const [there, here] = await Promise.all([
  startCluster({ app: 'test/apps/basic' }),
  startCluster({
    app: 'test/apps/basic',
    env: { WEFT_CONTROL_KEY: KEY, WEFT_LOCAL_SOURCES: folder, WEFT_DEPLOY_STABLE_MS: '200' },
  }),
])
t.teardown(() => Promise.all([there.stop(), here.stop()]))

const weft = (...args: string[]) => runWeft(args, { WEFT_URL: here.url })

async function finished(client: Client, graph: string, ...payloads: object[]) {
  const { thread_id } = await client.threads.create({ metadata: { of: graph } })
  for (const payload of payloads) await client.runs.wait(thread_id, graph, payload)
  return thread_id
}

t.test('runs and threads are listed, followed, cancelled and deleted', async t => {
  const client = new Client({ apiUrl: here.url })
  const { thread_id } = await client.threads.create()
  const input = { messages: [{ role: 'user', content: 'hi' }] }
  const run = await client.runs.create(thread_id, 'model', {
    input,
    streamMode: ['messages-tuple', 'updates'],
    streamResumable: true,
  })
  const tail = await weft('runs', 'tail', run.run_id)
  t.match(tail, {
    code: 0,
    stdout: /^metadata .*\nevery token must arrive, also the last one\.\nupdates \{"node".*\n$/,
  })
  const lines = (await weft('runs', 'tail', run.run_id, '--json', '--from', '1')).stdout.trim().split('\n')
  const events = lines.map(line => JSON.parse(line) as { id: string; event: string })
  t.equal(events[0]!.id, '2')
  t.equal(events.at(-1)!.event, 'updates')

  const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 60_000 } })
  const listed = (await weft('runs', 'list', '--json')).json() as { run_id: string }[]
  t.same(
    listed.map(({ run_id }) => run_id),
    [slow.run_id, run.run_id],
  )
  t.match((await weft('runs', 'list', '--status', 'success')).stdout, new RegExp(`^run .*\n${run.run_id} .*success`))
  await until(async () => /^model +graph +ok/m.test((await weft('runs', 'spans', run.run_id)).stdout))
  t.match((await weft('runs', 'spans', run.run_id, '--json')).json(), { run_id: run.run_id, left_out: 0 })
  t.match(await weft('runs', 'cancel', slow.run_id, '--thread', thread_id), { code: 0, stdout: /^cancelled/ })
  await client.runs.join(thread_id, slow.run_id).catch(() => {})
  t.equal((await client.runs.get(thread_id, slow.run_id)).status, 'interrupted')

  t.match((await weft('threads', 'list', '--metadata', '{"graph_id":"slow"}')).stdout, thread_id)
  t.match((await weft('threads', 'get', thread_id)).json(), { values: {}, tasks: [] })
  t.match(await weft('threads', 'delete', thread_id), { code: 0 })
  t.match(await weft('threads', 'get', thread_id), {
    code: 1,
    stderr: new RegExp(`Thread with ID ${thread_id} not found`),
  })
})

t.test('runs are found by what went wrong, and watched', async t => {
  const client = new Client({ apiUrl: here.url })
  const { thread_id } = await client.threads.create()
  const bad = await client.runs.create(thread_id, 'fail', { input: { message: 'the model is away' } })
  await client.runs.join(thread_id, bad.run_id).catch(() => {})
  const found = async (...flags: string[]) =>
    ((await weft('runs', 'list', '--json', ...flags)).json() as { run_id: string }[]).map(({ run_id }) => run_id)
  t.same(await found('--status', 'error', '--graph', 'fail', '--since', '1h', '--text', 'MODEL is away'), [bad.run_id])
  t.same(await found('--assistant', 'fail', '--thread', thread_id, '--status', 'error', 'timeout'), [bad.run_id])
  t.same(await found('--status', 'error', '--since', '2999-01-01T00:00:00Z'), [])
  t.match(
    (await weft('runs', 'list', '--status', 'error')).stdout,
    /TooBadError: the model is away \(graphs\.mjs:\d+\)\n$/,
  )

  const child = spawnWeft(['runs', 'list', '--watch', '--json', '--thread', thread_id], { WEFT_URL: here.url })
  t.teardown(() => child.kill())
  const events: string[] = []
  createInterface({ input: child.stdout! }).on('line', line => {
    const { run_id, status } = JSON.parse(line) as { run_id: string; status: string }
    events.push(`${run_id} ${status}`)
  })
  await until(async () => events.length === 1)
  const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 60_000 } })
  await until(async () => events.includes(`${slow.run_id} running`))
  await client.runs.cancel(thread_id, slow.run_id)
  await until(async () => events.includes(`${slow.run_id} interrupted`))
  t.equal(events[0], `${bad.run_id} error`)
  t.equal(new Set(events).size, events.length, 'each status once')
  t.same(await found('--thread', thread_id), [slow.run_id, bad.run_id])
  t.same(await found('--thread', thread_id, '--oldest'), [bad.run_id, slow.run_id])
})

t.test('what goes wrong is one sentence and an exit code', async t => {
  for (const [args, code, sentence] of [
    [['runs', 'list', '--url', 'http://127.0.0.1:9'], 3, /no server answers at http:\/\/127\.0\.0\.1:9 .*weft start/],
    [['runs', 'list', '--url', 'nowhere'], 2, /--url must be an http or https URL/],
    [['runs', 'list', '--limit', '0'], 2, /--limit must be a whole number from 1 to 1000/],
    [['runs', 'list', '--oldest', '--watch'], 2, /'--oldest' cannot be used with option '--watch'/],
    [['runs', 'list', '--status', 'done'], 2, /Allowed choices are pending, running/],
    [['runs', 'tail', 'x'], 1, /refuses: run_id must be a UUID/],
    [['runs', 'tail', 'x', '--from', 'y'], 2, /--from must be the id of an event, or -1/],
    [['runs', 'list', '--since', 'yesterday'], 2, /--since must be a time as .*, or 30s, 15m, 1h or 7d/],
    [['runs', 'list', 'x'], 2, /Expected 0 arguments but got 1; see/],
    [['runs', 'list', '--key', 'a\nb'], 2, /the value of x-api-key cannot be sent as a header/],
    [['threads', 'delete', here.url, 'x'], 1, /^weft: http.*: .* refuses: .*; nothing was deleted/],
    [['runs', 'cancel', 'x'], 2, /expected ids of runs with --thread, or --status/],
    [['threads', 'list', '--metadata', '[]'], 2, /--metadata must be a JSON object/],
    [['deploy', join(folder, 'app')], 1, /refuses: .*--key or WEFT_KEY/],
    [['deploy', folder, '--key', KEY], 2, /there is no langgraph\.json in/],
    [['deploy', join(folder, 'app'), '--key', KEY, '--ref', 'main'], 2, /--ref names .* give --repo/],
    [['deploy', join(folder, 'app'), '--key', KEY, '--config', '../langgraph.json'], 2, /langgraph\.json is not in /],
    [['deploy', join(folder, 'app'), '--key', KEY, '--name', ''], 2, /--name must not be empty/],
    [['import', 'nowhere'], 2, /<source> must be an http or https URL/],
    [['import', 'http://127.0.0.1:9'], 3, /no server answers at http:\/\/127\.0\.0\.1:9 .*the source of the import/],
    [['import', here.url], 2, /is the source and the target/],
    [['import', there.url, '--state', folder], 2, /--state .* cannot be written/],
    [['keys', 'list', '--data', folder], 3, /no server runs on the data folder .*: start it with `weft start`/],
    [['keys', 'list', '--data', folder, '--url', here.url], 2, /'--url <url>' cannot be used with option '--data/],
    [['nats', 'init', '--pool', 'a.b.c'], 2, /--pool must be a pool, or an application and its pool/],
    [['nats', 'init', '--pool', 'a b'], 2, /pool must be 1 to 64 letters/],
    [['nats', 'user', 'default'], 2, /WEFT_NATS_ISSUER is not set/],
    [['import', here.url, '--only', 'runs'], 2, /--only must be some of assistants, threads, items, crons/],
    [['import', here.url, '--source-header', 'x'], 2, /--source-header must be as/],
  ] as const) {
    const found = await weft(...args)
    t.match(found, { code, stderr: sentence }, args.join(' '))
    t.equal(found.stderr.trim().split('\n').length, 1)
  }
})

t.test('a shell completes commands, flags and their values', async t => {
  const complete = async (...words: string[]) => (await weft('complete', '--', ...words)).stdout
  t.match(await complete('thr'), /^threads\t/m)
  t.match(await complete('runs', ''), /^tail\t/m)
  t.match(await complete('runs', 'list', '--sta'), /^--status\t/m)
  t.match(await complete('keys', 'create', 'x', '--scope', ''), /^deployments\b/m)
  for (const shell of ['bash', 'zsh', 'fish']) t.match(await weft('complete', shell), { code: 0, stdout: /weft/ })
})

t.test('a folder is deployed, and again as a second revision', async t => {
  const first = await weft('deploy', join(folder, 'app'), '--key', KEY, '--secret', 'A=value-of-a')
  t.match(first, {
    code: 0,
    stderr: /^deployment app: 2 files of .*DEPLOYED/s,
    stdout: /\/deployments\/app-[0-9a-f]{8}\n$/,
  })
  const client = new Client({ apiUrl: first.stdout.trim() })
  t.match(await client.runs.wait(null, 'small', { input: {} }), { n: 1 })
  const again = ['deploy', join(folder, 'app'), '--config', './langgraph.json', '--key', KEY, '--no-wait', '--json']
  const second = await weft(...again)
  t.match(second, { code: 0, stderr: /^revision app/, stdout: /"revision_id":"[0-9a-f-]{36}"/ })
  const other = await weft('deploy', join(folder, 'app'), '--key', KEY, '--repo', 'https://example.com/a/b')
  t.match(other, { code: 1, stderr: /the deployment "app" is built from uploads of its folder: .* no --repo/ })
})

t.test('what git ignores is not uploaded, and what is not committed is', async t => {
  const top = t.testdir({
    '.gitignore': 'secret.txt\n.env\nnode_modules\n',
    '.env': 'KEY=1',
    'secret.txt': 'x',
    'gone.txt': 'x',
    'langgraph.json': '{"graphs":{},"env":".env"}',
    node_modules: { 'a.js': '' },
    link: t.fixture('symlink', 'secret.txt'),
    part: { 'new.mjs': '1234' },
  })
  const git = (...args: string[]) => execFileSync('git', args, { cwd: top, stdio: 'ignore' })
  git('init', '-q')
  git('add', 'langgraph.json', '.gitignore', 'gone.txt')
  rmSync(join(top, 'gone.txt'))
  const tracked = filesOf(top, 'langgraph.json')
  t.same(tracked.paths, ['.gitignore', 'langgraph.json', 'part/new.mjs'])
  t.match(tracked.notes.join('\n'), /links are not uploaded: link\n.*\.env is not uploaded: .*--secret/)
  rmSync(join(top, '.git'), { recursive: true })
  t.same(filesOf(top, 'langgraph.json').paths, ['.gitignore', 'langgraph.json', 'part/new.mjs', 'secret.txt'])
})

t.test('a folder comes to a deployment of its own kind only', async t => {
  const repo = ['--key', KEY, '--name', 'from-git', '--no-wait', '--json']
  const made = await weft('deploy', join(folder, 'app'), '--repo', pathToFileURL(folder).href, '--ref', 'x', ...repo)
  t.equal(made.code, 0, made.stderr)
  const refused = await weft('deploy', join(folder, 'app'), ...repo)
  t.match(refused, { code: 1, stderr: /"from-git" is built from file:.*give another --name, or that --repo/ })
})

t.test('an import brings what the API shows, once', async t => {
  const source = new Client({ apiUrl: there.url })
  const target = new Client({ apiUrl: here.url })
  const counter = await finished(source, 'counter', { input: { steps: 2 } }, { input: { steps: 3 } })
  const chat = await finished(source, 'model', { input: { messages: [{ role: 'user', content: 'hi' }] } })
  const asked = await finished(source, 'ask', { input: { question: 'well?' } })
  const edited = await finished(source, 'counter', { input: { steps: 1 } })
  await source.threads.updateState(edited, { values: { numbers: [7] }, asNode: 'count' })
  const empty = (await source.threads.create({ metadata: { of: 'nothing' } })).thread_id
  const { assistant_id } = await source.assistants.create({ graphId: 'counter', name: 'first' })
  await source.assistants.update(assistant_id, { graphId: 'counter', name: 'second' })
  await source.assistants.setLatest(assistant_id, 1)
  await source.store.putItem(['users', 'ada'], 'colour', { is: 'green' })
  await source.store.putItem(['docs'], 'one', { text: 'x' })
  await source.crons.createForThread(counter, assistant_id, { schedule: '0 0 1 1 *', input: { steps: 1 } })

  const state = join(folder, 'state.jsonl')
  const first = await weft('import', there.url, '--state', state, '--json')
  t.match(first, { code: 0 }, first.stderr)
  t.match(first.json(), {
    threads: { done: 5, failed: 0, notes: { 'newest values only': 1 } },
    items: { done: 2 },
    crons: { done: 1 },
  })
  for (const id of [counter, chat, asked, edited, empty]) {
    const [wanted, made] = await Promise.all([source.threads.get(id), target.threads.get(id)])
    t.same([made.values, made.metadata], [wanted.values, wanted.metadata], `${wanted.metadata?.of}`)
  }
  const shape = async (client: Client, id: string) =>
    (await client.threads.getHistory(id, { limit: 100 })).map(({ values, next }) => ({ values, next }))
  for (const id of [counter, chat, asked]) t.same(await shape(target, id), await shape(source, id), 'the whole history')
  t.match(
    await target.runs.wait(asked, 'ask', { input: null }),
    { __interrupt__: Array },
    'the question is asked again',
  )
  t.match(await target.runs.wait(asked, 'ask', { command: { resume: 'yes' } }), { answer: { given: 'yes' } })
  t.match(await target.assistants.get(assistant_id), { name: 'first', version: 1 })
  t.equal((await target.assistants.getVersions(assistant_id)).length, 2)
  t.match(await target.store.getItem(['users', 'ada'], 'colour'), { value: { is: 'green' } })
  t.match(await target.crons.search({ threadId: counter }), [{ schedule: '0 0 1 1 *', assistant_id }])

  // Stopped after a thread was begun, before anything of the crons was noted.
  const lines = readFileSync(state, 'utf8').split('\n')
  const kept = lines.filter(line => !/"crons"/.test(line) && !(line.includes(chat) && line.includes('done')))
  writeFileSync(state, `${kept.join('\n')}{"kind":"thr`)
  t.match(await weft('import', there.url, '--state', state), { code: 0, stdout: /^threads +5$/m })
  t.same((await target.threads.get(chat)).values, (await source.threads.get(chat)).values)
  t.equal((await target.crons.search({ threadId: counter })).length, 1, 'no second cron')

  const fresh = join(folder, 'fresh.jsonl')
  const again = await weft('import', there.url, '--state', fresh, '--only', 'threads')
  t.match(again, { code: 1, stdout: /5 refused/, stderr: /the same command tries them again/ })
  t.match(readFileSync(fresh, 'utf8'), /Thread already exists/, 'threads of others are not changed')
  const elsewhere = here.url.replace('127.0.0.1', 'localhost')
  for (const servers of [[elsewhere], [there.url, '--url', elsewhere]])
    t.match(await weft('import', ...servers, '--state', state), { code: 2, stderr: /belongs to an import from .* to / })
  t.notOk(existsSync('weft-import.jsonl'))
})
