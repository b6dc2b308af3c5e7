/**
 * No secret appears in clear text: not in the files of the store or the broker, not in logs, answers, errors, the
 * memory of the edge after use, or the process list (docs/spec/control-plane.md#secrets). The search covers text,
 * base64 and UTF-16.
 */
import { readdirSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { base64, filesBelow, holds } from '../../helpers/byte-search.js'
import { startRoles } from '../../helpers/cluster.js'
import { KEY, openControl, openDeployer } from '../../helpers/control.js'
import { heapEnv, heapOf } from '../../helpers/heap-dump.js'
import { callWithSecret, failWithSecret } from './secret-calls.js'

t.setTimeout(180_000)

const CANARY = 'canary-7f3a9c51e8d24b06'

/** The arguments of every visible process of this machine. */
const commandLines = (): Buffer[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && name !== `${process.pid}`)
    .flatMap(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`)
      } catch {
        return []
      }
    })

t.test('the search of this test finds a planted secret', async (t: Test) => {
  for (const text of [CANARY, `{"a":"${CANARY}"}`, base64(`ab${CANARY}`), base64(`a${CANARY} and more`)])
    t.ok(holds(Buffer.from(text), CANARY), text)
  t.notOk(holds(Buffer.from('nothing'), CANARY))
})

t.test('no secret appears in clear text outside of its owner', async t => {
  const heap = t.testdir({})
  const env = { WEFT_CONTROL_KEY: KEY, LOG_LEVEL: 'debug', ...heapEnv(heap) }
  const roles = await startRoles({ env })
  t.teardown(() => roles.stop())
  const calls = await callWithSecret(openControl(roles.urls[0]!), CANARY)
  t.same(calls.accepted, [], 'wrong calls are refused')
  const deployer = await openDeployer(roles.nats.url('deployer'))
  t.teardown(() => deployer.close())
  t.same(await failWithSecret(deployer, calls, CANARY), { TOKEN: CANARY }, 'a deploy worker is given it')
  await t.rejects(deployer.ask('log', { deployment_id: CANARY, revision_id: CANARY, stage: 'x', lines: [] }))

  for (const role of ['graphs', 'edge'] as const) {
    const other = await openDeployer(roles.nats.url(role), role)
    await t.rejects(other.claim(), `${role} is not given an order`)
    await other.close()
  }

  const found = (what: string, bytes: Uint8Array) => t.notOk(holds(bytes, CANARY), `not in ${what}`)
  for (const [i, text] of calls.answers.entries()) found(`answer ${i}: ${text.slice(0, 60)}`, Buffer.from(text))
  for (let n = 0; n < 50; n++) await (await fetch(`${roles.urls[0]}/ok`)).text()
  const { snapshot, buffers } = await heapOf(roles.edges[0]!, heap)
  t.ok(snapshot.includes('/v2/deployments'), 'the heap of the edge')
  found('the heap of the edge after use', snapshot)
  found('buffers of the edge after use', buffers)
  for (const line of commandLines()) found(`the arguments of ${line.toString().slice(0, 40)}`, line)
  const files = () => {
    let n = 0
    for (const file of filesBelow(roles.nats.data)) {
      n++
      found(file, readFileSync(file))
    }
    return n
  }
  t.ok(files() > 5, 'files while it runs: database, its log, the broker’s streams')
  const procs = [...roles.edges, ...roles.resources, ...roles.graphs]
  for (const proc of procs) await proc.stop()
  for (const proc of procs) found('the output of a role', Buffer.from(proc.output()))
  t.ok(
    procs.some(({ output }) => output().includes('rpc.deployments.create')),
    'calls are logged',
  )
  t.ok(files() > 5, 'files after an orderly stop')
})
