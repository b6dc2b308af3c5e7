/** Processes of neighbouring protocols work together in every role; others are refused with a sentence. */
import t from 'tap'
import { skewOf } from '../../schemas/protocol.js'
import { type Proc, type Roles, startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)

const APP = 'test/apps/basic'
const of = (protocol: number) => ({ WEFT_PROTOCOL: `${protocol}` })
const none = { resources: 0, graphs: 0, edges: 0, app: APP }

const ended = (proc: Proc) => new Promise<number | null>(done => proc.child.once('exit', done))

async function runThrough(edge: Proc): Promise<number> {
  const body = JSON.stringify({ assistant_id: 'echo', input: { messages: [] } })
  const headers = { 'content-type': 'application/json' }
  return (await fetch(`http://127.0.0.1:${edge.port}/runs/wait`, { method: 'POST', headers, body })).status
}

/** Protocol by role, as the metrics show them. */
async function protocolsOf(edge: Proc): Promise<string[]> {
  const answer = await fetch(`http://127.0.0.1:${edge.port}/metrics?format=json`)
  const { samples } = (await answer.json()) as { samples: { name: string; labels?: { [name: string]: string } }[] }
  const found = samples.flatMap(({ name, labels }) => (name === 'weft_build_info' ? [labels!] : []))
  return found.map(({ role, protocol }) => `${role} ${protocol}`).sort()
}

t.test('the rule', async t => {
  const build = (protocol: number) => ({ version: `0.${protocol}.0`, protocol })
  const skew = (one: number, other: number) =>
    skewOf({ what: 'an edge', weft: build(one) }, { what: 'a resource worker', weft: build(other) })
  for (const [one, other] of [
    [1, 1],
    [1, 2],
    [2, 1],
    [3, 2],
  ] as const)
    t.equal(skew(one, other), null)
  t.equal(
    skew(4, 2),
    'an edge of Weft 0.4.0 (protocol 4) and a resource worker of Weft 0.2.0 (protocol 2) do not work together: upgrade a resource worker first, by one protocol at a time',
  )
  const silent = { what: 'a deploy worker', weft: undefined }
  t.equal(skewOf(silent, { what: 'a resource worker', weft: build(2) }), null, 'a version before there were numbers')
  t.match(
    skewOf(silent, { what: 'a resource worker', weft: build(3) }),
    /^a deploy worker of an older Weft \(protocol 1\)/,
  )
})

t.test('the protocols before and after that of the resource worker are served', async t => {
  const roles = await startRoles(none)
  t.teardown(() => roles.stop())
  await roles.add('resources', undefined, of(2))
  const workers = [await roles.add('graphs', undefined, of(1)), await roles.add('graphs', undefined, of(3))]
  const edges = [await roles.add('edge', undefined, of(1)), await roles.add('edge', undefined, of(3))]
  const deployer = await roles.add('deployer', undefined, of(3))
  for (const edge of edges) t.same([await runThrough(edge), await runThrough(edge)], [200, 200])
  await workers[1]!.stop()
  t.equal(await runThrough(edges[1]!), 200, 'a run of the older graph worker')
  await until(async () => (await protocolsOf(edges[1]!)).length === 4)
  t.same(await protocolsOf(edges[1]!), ['deployer 3', 'edge 3', 'graphs 1', 'resources 2'])
  for (const { child } of [...edges, deployer]) t.equal(child.exitCode, null)
})

t.test('protocols further away are refused with a sentence', async t => {
  const roles = await startRoles(none)
  t.teardown(() => roles.stop())
  await roles.add('resources', undefined, of(3))
  await t.rejects(roles.add('graphs', undefined, of(1)), {
    message:
      /the graph worker of pool default of Weft \S+ \(protocol 1\) and a resource worker of Weft \S+ \(protocol 3\) do not work together/,
  })
  for (const [role, what] of [
    ['edge', 'an edge'],
    ['deployer', 'a deploy worker'],
  ] as const)
    await refused(roles, role, what)

  async function refused({ add }: Roles, role: 'edge' | 'deployer', what: string) {
    // It may end before or after it has started.
    const output = await add(role, undefined, of(1)).then(
      async proc => {
        t.equal(proc.child.exitCode ?? (await ended(proc)), 2, role)
        return proc.output()
      },
      error => (error as Error).message,
    )
    t.match(output, `${what} of Weft`)
    t.match(output, 'do not work together')
  }
})

t.test('processes that run leave when resource workers have become too new', async t => {
  const roles = await startRoles(none)
  t.teardown(() => roles.stop())
  const resources = await roles.add('resources', undefined, of(1))
  const others = [await roles.add('graphs', undefined, of(1)), await roles.add('edge', undefined, of(1))]
  const codes = others.map(ended)
  await resources.stop()
  await roles.add('resources', undefined, of(3))
  t.same(await Promise.all(codes), [2, 2])
  for (const { output } of others) t.match(output(), 'do not work together')
})
