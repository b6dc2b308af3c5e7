/**
 * Deployments of images in a whole cluster, with real graph workers: on imitations of engines, and on a Docker Engine and
 * Podman where this machine runs their containers. Another real engine runs the same rows: the compiled file with WEFT_TEST_IMAGE (an image with the tags `one` and `two`) and WEFT_TEST_DOCKER_HOST or WEFT_TEST_KUBECONFIG.
 */
import t from 'tap'
import type { Deployment } from '../../schemas/deployments.js'
import { startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { type EngineKind, startTestEngine } from './engines.js'
import { sourcesFolder } from './repository.js'

t.setTimeout(240_000)

const { WEFT_TEST_IMAGE, WEFT_TEST_DOCKER_HOST } = process.env
const KINDS: readonly EngineKind[] =
  WEFT_TEST_IMAGE === undefined
    ? ['docker', 'dockerd', 'podman', 'kubernetes']
    : [WEFT_TEST_DOCKER_HOST ? 'docker' : 'kubernetes']

for (const kind of KINDS)
  t.test(`${kind}: images are deployed, replaced, survive the deploy worker, and are removed`, async t => {
    const { folder, remove } = sourcesFolder()
    t.teardown(remove)
    const engine = await startTestEngine(kind, folder, ['one', 'two']).catch((error: Error) => {
      if (kind !== 'podman' && kind !== 'dockerd') throw error
      return error.message
    })
    if (typeof engine === 'string') return void t.pass(engine, { skip: engine })
    t.teardown(() => engine.close())
    const roles = await startRoles({
      app: 'test/apps/basic',
      env: { ...deployEnv(folder), ...engine.env, WEFT_STOP_MS: '3000' },
    })
    t.teardown(() => roles.stop())
    const control = controlOf(roles.urls[0]!)
    let deployer = await roles.add('deployer')
    const size = { memory_mb: 512, cpu: 0.5, cpu_limit: 1 }
    const made = await control.createImage('image', engine.imageOf('one'), size, [
      { name: 'TOKEN', value: 'a secret value' },
    ])
    await control.deployed(made)
    const client = lines[0]!.connect(control.urlOf(made))
    const ask = (text: string) => client.runs.wait(null, 'agent', { input: { text } })
    t.match(await ask('x'), { answer: 'one x' })

    await t.test('what serves goes on while there is no deploy worker', async t => {
      const ended = new Promise(done => deployer.child.once('exit', done))
      deployer.kill('SIGKILL')
      await ended
      t.match(await ask('y'), { answer: 'one y' })
      deployer = await roles.add('deployer')
      t.match(await ask('z'), { answer: 'one z' })
      t.match(engine.running() ?? 1, 1, 'it was adopted')
    })

    if (engine.kill !== undefined)
      await t.test('a replica that is killed is replaced', async t => {
        engine.kill!()
        t.match(await ask('k'), { answer: 'one k' })
        t.equal(engine.running(), 1)
      })

    await t.test('a new revision takes over, also when the deploy worker dies meanwhile', async t => {
      const next = await control.patch(made.id, { source_revision_config: { image_uri: engine.imageOf('two') } })
      await control.reaches(next, 'DEPLOYING')
      deployer.kill('SIGKILL')
      deployer = await roles.add('deployer')
      await control.deployed(next)
      t.match(await ask('x'), { answer: 'two x' })
      const revision = await control.revision(made.id, next.latest_revision_id!)
      t.equal(revision.status, 'DEPLOYED')
    })

    await t.test('an image that nobody has', async t => {
      const next = await control.patch(made.id, { source_revision_config: { image_uri: engine.unknown } })
      const revision = await control.over(next)
      t.equal(revision.status, 'DEPLOY_FAILED')
      t.match(
        revision.status_message,
        kind !== 'kubernetes' ? /^image pull: / : /^deploy: pod .*: (ErrImagePull|ImagePullBackOff)/,
      )
      t.match(await ask('x'), { answer: 'two x' }, 'what served goes on serving')
    })

    await control.remove(made.id)
    while ((await control.ask<Deployment>('GET', `/v2/deployments/${made.id}`)).status !== 404)
      await new Promise(done => setTimeout(done, 100))
    t.match(engine.running() ?? 0, 0)
  })
