/** `useStream` in a browser with graphs in Python: the newest langgraph with the newest SDK, the oldest with the other line. */
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { openBrowser, type Pages, servePages } from './browser.js'
import { useChat } from './chat-steps.js'

t.setTimeout(240_000)
const skip = withoutPython() ?? false

let browser: Browser
let pages: Pages
if (skip === false)
  t.before(async () => {
    browser = await openBrowser()
    pages = await servePages(['sdk1', 'sdk2'])
  })
t.teardown(async () => {
  await browser?.close()
  pages?.close()
})

for (const [age, line] of [
  ['newest', lines.at(-1)!],
  ['oldest', lines[0]!],
] as const)
  t.test(`the ${age} langgraph, useStream of ${line.name}`, { skip, timeout: 180_000 }, async t => {
    const python = await venvOf(join(root, `test/host-python/requirements-${age}.txt`))
    const cluster = await startCluster({ app: 'test/apps/chat-py', env: { WEFT_PYTHON: python } })
    t.teardown(() => cluster.stop())
    await useChat(t, { browser, cluster, address: pages.url(line.alias) })
  })
