import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../scripts/root.js'
import { startCluster } from '../helpers/cluster.js'

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
