import type { Browser } from 'playwright-core'
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { openBrowser, type Pages, servePages } from './browser.js'
import { useChat } from './chat-steps.js'

t.setTimeout(180_000)

let browser: Browser
let cluster: Cluster
let pages: Pages
t.before(async () => {
  browser = await openBrowser()
  cluster = await startCluster({ app: 'test/apps/chat' })
  pages = await servePages(['sdk1', 'sdk2'])
})
t.teardown(async () => {
  await browser?.close()
  pages?.close()
  await cluster?.stop()
})

for (const { name, alias } of lines)
  t.test(`useStream of ${name} in a browser`, { timeout: 120_000 }, t =>
    useChat(t, { browser, cluster, address: pages.url(alias) }),
  )
