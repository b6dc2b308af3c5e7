/** One Weft over a hub and two leaf nodes, as over several regions: docs/scaling.md says what this test shows. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { root } from '../../cli/root.js'
import { launch } from '../helpers/cluster.js'
import { type Node, startLeafNodes } from '../helpers/leaf-nodes.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)

/** An application with one graph of the bench under a name of its own. */
function appAt(folder: string, graph: string, source: string): string {
  mkdirSync(folder, { recursive: true })
  const graphs = { [graph]: `${join(root, 'test/apps/bench/graphs.mjs')}:${source}` }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ node_version: '20', graphs }))
  return folder
}

t.test('two regions, each a leaf node without JetStream', async t => {
  const nodes = await startLeafNodes(2, ['region-0'])
  t.teardown(() => nodes.stop())
  const env = (url: string) => ({ NATS_URL: url, MONGODB_URL: '' })
  const issuer = { WEFT_NATS_ISSUER: nodes.secrets.WEFT_NATS_ISSUER! }
  const resources = await launch(['resources', '--data', nodes.folder('data')], {
    ...env(nodes.hub.url('resources')),
    ...issuer,
  })
  t.teardown(() => resources.stop())
  const regions: { client: Client; graph: string }[] = []
  for (const [i, leaf] of nodes.leaves.entries()) {
    const app = appAt(nodes.folder(`app-${i}`), `custom-${i}`, 'custom')
    // One pool has a user of its own.
    const url = leaf.url('graphs', i === 0 ? 'NATS_POOL_REGION_0' : undefined)
    const graphs = await launch(['graphs', '--app', app, '--pool', `region-${i}`], env(url))
    t.teardown(() => graphs.stop())
    const edge = await launch(['edge', '--port', '0'], env(leaf.url('edge')))
    t.teardown(() => edge.stop())
    const client = new Client({ apiUrl: `http://127.0.0.1:${edge.port}`, callerOptions: { maxRetries: 0 } })
    regions.push({ client, graph: `custom-${i}` })
  }
  const [near, far] = regions as [(typeof regions)[0], (typeof regions)[0]]

  await t.test('threads and runs of one region are those of the other', async t => {
    const { thread_id } = await near.client.threads.create({ metadata: { at: 'near' } })
    t.match(await far.client.threads.get(thread_id), { metadata: { at: 'near' } })
    for (const { client } of regions)
      for (const { graph } of regions)
        t.match(await client.runs.wait(thread_id, graph, { input: { count: 3 } }), { done: 3 }, graph)
  })

  await t.test('a resumable stream is joined in the other region, from its stored events', async t => {
    const run = await near.client.runs.create(null, far.graph, {
      input: { count: 50 },
      streamMode: 'custom',
      streamResumable: true,
    } as never)
    await near.client.runs.join(null as never, run.run_id).catch(() => {})
    const seen: number[] = []
    for await (const { event, data } of far.client.runs.joinStream(null, run.run_id, { lastEventId: '-1' }))
      if (event === 'custom') seen.push((data as { i: number }).i)
    t.same(
      seen,
      Array.from({ length: 50 }, (_, i) => i),
    )
  })

  await t.test(
    'a region that was cut off serves again when its leaf node is back; the other is not affected',
    async t => {
      const before = await near.client.threads.create()
      await nodes.leaves[0]!.stop()
      const { thread_id } = await far.client.threads.create()
      t.match(await far.client.runs.wait(thread_id, far.graph, { input: { count: 3 } }), { done: 3 })
      await t.rejects(near.client.threads.get(before.thread_id))
      await nodes.leaves[0]!.start()
      await until(
        () =>
          near.client.threads.get(before.thread_id).then(
            () => true,
            () => false,
          ),
        60_000,
      )
      t.match(await near.client.runs.wait(before.thread_id, near.graph, { input: { count: 3 } }), { done: 3 })
    },
  )

  await t.test('a run whose region is cut off ends there, once it is back', async t => {
    const { thread_id } = await far.client.threads.create()
    const run = await far.client.runs.create(thread_id, near.graph, { input: { count: 5, delay_ms: 1_000 } })
    await until(async () => (await far.client.runs.get(thread_id, run.run_id)).status === 'running', 20_000)
    await nodes.leaves[0]!.stop()
    await nodes.leaves[0]!.start()
    await far.client.runs.join(thread_id, run.run_id)
    t.equal((await far.client.runs.get(thread_id, run.run_id)).status, 'success')
  })
  await t.test('leaf nodes get second users at the hub, and the first ones end', async t => {
    const [leaf, other] = nodes.leaves as [Node, Node]
    const first = [nodes.secrets.NATS_LEAF_PASSWORD!] as const
    const second = ['another-password', '-next'] as const
    const restart = async (node: Node, ...change: Parameters<Node['change']>) => {
      node.change(...change)
      await node.stop()
      await node.start()
    }
    const same = (users: string) => users
    const isServed = () =>
      Promise.all(regions.map(({ client, graph }) => client.runs.wait(null, graph, { input: { count: 3 } }))).then(
        () => true,
        () => false,
      )
    const line = /^ *\{ user: (leaf-\w+), password: \S+, (account: \w+) \}$/gm
    const next = `{ user: $1${second[1]}, password: "${second[0]}", $2 }`
    await restart(nodes.hub, users => users.replaceAll(line, `$&\n${next}`))
    await until(isServed)
    for (const one of [leaf, other]) {
      await restart(one, same, nodes.remotes(...second))
      await until(isServed)
    }
    await restart(nodes.hub, users => users.replaceAll(line, ''))
    await until(isServed)
    await restart(leaf, same, nodes.remotes(...first))
    await t.rejects(near.client.threads.create(), 'the first users are no more')
    t.match(await far.client.threads.create(), { status: 'idle' })
    await restart(leaf, same, nodes.remotes(...second))
    await until(isServed)
  })
})
