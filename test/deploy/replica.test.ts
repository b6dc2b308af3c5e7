/** A graph worker in a container (`weft graphs` with WEFT_REVISION): beats, probes, and what its signals do. */
import t, { type Test } from 'tap'
import { openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { freePort } from '../../cli/ports.js'
import { poolOf, type ReplicaBeat, validateReplicaBeat } from '../../schemas/deploy-calls.js'
import type { Deployment } from '../../schemas/deployments.js'
import { token } from '../../schemas/ids.js'
import { beat } from '../../schemas/subjects.js'
import { startRoles } from '../helpers/cluster.js'
import { image, KEY, openControl } from '../helpers/control.js'

t.setTimeout(60_000)

/** Roles without a deploy worker, and the environment of replicas of the first revision of a deployment. */
async function stage(t: Test, more: { [name: string]: string }) {
  const roles = await startRoles({ graphs: 0, app: 'test/apps/basic', env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const made = await openControl(roles.urls[0]!)<Deployment>('POST', '/v2/deployments', image('replicated'))
  t.equal(made.status, 201, made.text)
  const { id: WEFT_APP_ID, latest_revision_id } = made.body
  const revision = latest_revision_id!
  const env = { WEFT_APP_ID, WEFT_POOL: poolOf(revision), WEFT_REVISION: revision, ...more }
  return { roles, revision, env }
}

t.test('a replica says that it is ready, answers probes, drains and stops', async t => {
  const port = await freePort()
  const { roles, revision, env } = await stage(t, { WEFT_HEALTH_PORT: String(port) })
  const link = await openLink({ url: roles.nats.url('deployer'), role: 'deployer', log: openLog('test', 'silent') })
  t.teardown(() => link.close())
  const beats: ReplicaBeat[] = []
  let arrived = () => {}
  const first = new Promise<void>(done => (arrived = done))
  link.subscribe(beat('*'), ({ data }) => {
    const parsed = validateReplicaBeat(JSON.parse(Buffer.from(data).toString()))
    if (parsed.success) beats.push(parsed.data)
    arrived()
  })
  const replica = await roles.add('graphs', undefined, env)
  await first
  t.equal(beats[0]?.revision_id, revision)
  t.ok(beats[0]?.graphs.some(({ graph_id }) => graph_id === 'agent'))
  const probe = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status
  t.same([await probe('/ok'), await probe('/live'), await probe('/else')], [200, 200, 404])
  replica.kill('SIGTERM')
  while (!replica.output().includes('draining')) await new Promise(done => setTimeout(done, 20))
  t.equal(await probe('/ok'), 200, 'it takes runs while it drains')
  const ended = new Promise(done => replica.child.once('exit', done))
  replica.kill('SIGINT')
  t.equal(await ended, 0, 'SIGINT ends the drain')
})

t.test('a replica that is stopped hands its runs back when another one goes on', async t => {
  const { roles, revision, env } = await stage(t, { WEFT_REPLICA: 'one' })
  const replica = await roles.add('graphs', undefined, env)
  const link = await openLink({ url: roles.nats.url('graphs'), role: 'graphs', log: openLog('test', 'silent') })
  t.teardown(() => link.close())
  const other = '0198f2a5-0000-7000-8000-00000000000c'
  const beats = [
    { revision_id: revision, replica: 'one', graphs: [] },
    { revision_id: other, replica: 'two', graphs: [] },
  ]
  const timer = setInterval(() => {
    for (const each of beats)
      for (const pool of [poolOf(revision), poolOf(other)])
        link.nc.publish(beat(token('pool', pool)), Buffer.from(JSON.stringify(each)))
  }, 100)
  t.teardown(() => clearInterval(timer))
  const ended = new Promise(done => replica.child.once('exit', done))
  replica.kill('SIGTERM')
  // Longer than beats count as late.
  await new Promise(done => setTimeout(done, 3_000))
  t.equal(replica.child.exitCode, null, 'beats of its own and of other revisions do not count')
  beats.push({ revision_id: revision, replica: 'two', graphs: [] })
  t.equal(await ended, 0)
  t.match(replica.output(), 'another replica goes on')
})

t.test('a replica whose application cannot be loaded exits with code 2', async t => {
  const roles = await startRoles({ graphs: 0, edges: 0, env: { WEFT_REVISION: 'r1', WEFT_APP_ID: 'app' } })
  t.teardown(() => roles.stop())
  await t.rejects(roles.add('graphs', ['--app', '/nowhere']), /ended with code 2(.|\n)*no application at \/nowhere/)
})
