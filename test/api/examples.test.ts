import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { root } from '../../scripts/root.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

t.test('the numbered examples run as they are', async t => {
  const cluster = await startCluster({ app: 'examples/chat' })
  t.teardown(() => cluster.stop())
  for (const name of ['01-stream', '02-resume', '03-interrupt']) {
    const run = promisify(execFile)(process.execPath, [join(root, 'examples', `${name}.mjs`)], {
      env: { ...process.env, WEFT_URL: cluster.url },
      timeout: 60_000,
    })
    await t.resolves(run, name)
  }
})

t.test('an agent in Python and a graph in TypeScript use one thread', { skip: withoutPython() ?? false }, async t => {
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const cluster = await startCluster({ app: 'examples/mixed', env: { WEFT_PYTHON: python } })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const input = { messages: [{ role: 'human', content: 'a broker' }] }
  const tokens: string[] = []
  for await (const { event, data } of client.runs.stream(thread_id, 'writer', { input, streamMode: 'messages-tuple' }))
    if (event === 'messages') tokens.push((data as unknown as [{ content: string }])[0].content)
  t.match(tokens.join(''), /^Once there was a broker\./)
  await client.runs.wait(thread_id, 'writer', { command: { resume: true } })
  t.match(await client.runs.wait(thread_id, 'reviewer', { input: {} }), { review: /^\d+ words, approved$/ })
})
