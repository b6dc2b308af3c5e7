/** The docker driver with the real client, against an engine of the tests: each row of a roll-out, and what goes wrong. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ResourceSpec } from '../../../schemas/deployments.js'
import { openEngine } from '../../../workers/deploy/docker/engine.js'
import { activeOf, ID, NOBODY, openTestBeats, rollOut, SECRET, stepOf, taskOf, until } from '../image-tasks.js'
import { type FakeContainer, type FakeEngine, type FakeImage, idle, type Program, startEngine } from './engine.js'
import { openTestDrivers, type TestDrivers } from './test-drivers.js'

t.setTimeout(60_000)

interface Bench extends TestDrivers {
  engine: FakeEngine
}

/** Says that it is ready, and stays. */
const worker =
  (beat: (container: FakeContainer) => void, ready = true): Program =>
  container => {
    container.say('{"level":30,"msg":"started"}')
    if (ready) setImmediate(() => beat(container))
    return signal => container.exit(signal === 'SIGKILL' ? 137 : 0)
  }

async function bench(
  t: Test,
  more: { [name: string]: FakeImage } = {},
  settings: object = {},
  kind: { podman?: boolean } = {},
): Promise<Bench> {
  const { beats, beat } = openTestBeats()
  const good: FakeImage = { program: worker(beat), labels: { 'org.opencontainers.image.version': '1.2' } }
  const images = { 'registry.test/team/app:1': good, 'registry.test/team/app:2': { ...good }, ...more }
  const engine = await startEngine(images, kind)
  t.teardown(() => engine.close())
  return { engine, ...openTestDrivers(t, { host: engine.host, beats, beat, settings }) }
}

t.test('a roll-out, a cutover, a drain and a delete', async t => {
  const { engine, open, retired, lines } = await bench(t)
  const driver = await open()
  const first = taskOf(1, { queue_min_scale: 2, queue_max_scale: 2, cpu: 0.5, memory_mb: 512, labels: { team: 'a' } })
  const made = await rollOut(driver, first)
  t.match(made, {
    graphs: [{ graph_id: 'agent' }],
    image_version: '1.2',
    artefact: /^registry\.test\/team\/app@sha256:/,
  })
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1', 'dep-support-1a2b3c4d-r1-g1-2'])
  const container = [...engine.containers.values()][0]!
  t.match(container.env, {
    TOKEN: SECRET,
    NATS_URL: 'nats://app.pool:a%20password@broker.test:4222',
    WEFT_APP_ID: ID,
    WEFT_POOL: 'rev_r1',
    WEFT_REVISION: 'r1',
    LANGGRAPH_API_URL: 'https://weft.test/deployments/support-1a2b3c4d',
    PORT: '8000',
    WEFT_HAND_OVER: 'true',
    WEFT_HEALTH_PORT: '8000',
  })
  t.match(container.labels, { team: 'a', 'weft.deployment': ID, 'weft.revision': 'r1', 'weft.epoch': '1' })
  t.notMatch(JSON.stringify(container.labels), /secret|password/)
  t.match(container.body.HostConfig, {
    NanoCpus: 1e9,
    CpuShares: 512,
    Memory: 1024 * 2 ** 20,
    MemorySwap: 1024 * 2 ** 20,
    MemoryReservation: 512 * 2 ** 20,
    PidsLimit: 4096,
    RestartPolicy: { Name: 'no' },
    NetworkMode: 'dep-support-1a2b3c4d',
  })
  t.equal(container.body.Image, made.artefact, 'started by its digest')
  await driver.reconcile([activeOf(first, made.artefact)], NOBODY)
  t.match(container.body.HostConfig, { RestartPolicy: { Name: 'unless-stopped' } }, 'from its cutover on')

  const second = taskOf(2)
  const next = await rollOut(driver, second)
  t.equal(engine.running().length, 3, 'beside the first')
  await driver.reconcile([activeOf(second, next.artefact)], NOBODY)
  await until('the first is drained', () => retired.length > 0 && engine.containers.size === 1)
  t.same(retired, ['rev_r1'])
  t.same(engine.running(), ['dep-support-1a2b3c4d-r2-g1-1'])
  t.ok(lines.includes('{"level":30,"msg":"started"}'), 'its output is in the runtime log')
  await driver.destroy(second)
  t.same([engine.containers.size, engine.networks.size, engine.volumes.size], [0, 0, 0])
  t.same(retired, ['rev_r1', 'rev_r2'])
})

t.test('errors of a pull arrive in the stream of a 200', async t => {
  const gone = [{ status: 'Pulling from team/app' }, { error: 'manifest for registry.test/team/app:3 not found' }]
  const slow = [{ error: 'toomanyrequests: rate exceeded' }]
  const { engine, open } = await bench(t, {
    'registry.test/team/app:3': { program: idle, pull: [gone] },
    'registry.test/team/app:4': { program: idle, pull: [slow] },
    'registry.test/team/app:5': { program: idle, os: 'windows' },
  })
  const driver = await open()
  const build = (n: number, lines: string[] = []) => driver.build(stepOf(taskOf(n), lines), async () => {})
  await t.rejects(build(3), {
    name: 'Fault',
    message: 'image pull: registry.test/team/app:3: manifest for registry.test/team/app:3 not found',
  })
  t.equal(engine.pulls.length, 1, 'no retry')
  const lines: string[] = []
  t.match(await build(4, lines), { artefact: /@sha256:/ })
  t.match(lines, [/toomanyrequests.*trying again/, /Downloaded/])
  await t.rejects(build(5), { name: 'Fault', message: /made for windows\/amd64, the engine runs linux\/amd64/ })
  await t.rejects(build(6), { name: 'Fault', message: /pull access denied/ })
})

t.test('a redeployed revision is pulled by its digest', async t => {
  const { engine, open } = await bench(t)
  const driver = await open()
  const { artefact } = await rollOut(driver, taskOf(1))
  t.ok(await driver.has(artefact, taskOf(2)))
  const pulls = engine.pulls.length
  const build = () => driver.build(stepOf(taskOf(2, {}, { artefact })), async () => {})
  t.equal((await build()).artefact, artefact)
  t.equal(engine.pulls.length, pulls, 'not while the engine has it')
  engine.prune()
  t.equal((await build()).artefact, artefact)
  t.equal(engine.pulls.at(-1), artefact)
})

for (const podman of [false, true])
  t.test(`a registry that cannot be reached, with ${podman ? 'Podman' : 'Docker'}`, async t => {
    const { engine, open } = await bench(t, { 'proxy:1': { program: idle } }, {}, { podman })
    const driver = await open()
    const spec = { sidecars: [{ name: 'proxy', image: 'proxy:1' }] }
    const build = (lines: string[], task = taskOf(1, spec)) => driver.build(stepOf(task, lines), async () => {})
    const { artefact } = await build([])
    engine.cutRegistry()
    const lines: string[] = []
    t.match(await build(lines), { artefact }, 'the engine has the image')
    t.match(lines.at(-1), /connection refused; the engine has the image registry\.test\/team\/app:1 and uses it/)
    const strict = { sidecars: [{ name: 'proxy', image: 'proxy:1', imagePullPolicy: 'Always' as const }] }
    await t.rejects(build([], taskOf(1, strict)), { name: 'Fault', message: /proxy:1: .*connection refused/ })
    engine.prune()
    await t.rejects(build([]), { name: 'Fault', message: /app:1: .*connection refused/ }, 'it has it no longer')
  })

t.test('Podman does not restart replicas of an active revision', async t => {
  const { engine, open, retired } = await bench(t, { 'proxy:1': { program: idle } }, {}, { podman: true })
  const driver = await open()
  const task = taskOf(1, { sidecars: [{ name: 'proxy', image: 'proxy:1' }], labels: { team: 'a' } })
  const { artefact } = await rollOut(driver, task)
  const active = activeOf(task, artefact)
  await driver.reconcile([active], NOBODY)
  const main = () => [...engine.containers.values()].find(({ name }) => name === 'dep-support-1a2b3c4d-r1-g1-1')!
  const { id } = main()
  main().exit(1)
  await until('the deploy worker has started it', () => engine.running().length === 1)
  t.equal(main().id, id, 'with its sidecar')
  await until('its sidecar is in its new network', () => engine.requests.some(one => one.endsWith('/restart')))

  engine.mute()
  main().exit(1)
  await driver.reconcile([active], NOBODY)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1'], 'also when the event of its end is lost')
  t.not(main().id, id, 'the dead one was in the way')
  t.equal(engine.containers.size, 2)

  // The replica of a revision that is no longer active, and that has ended by itself.
  main().exit(0)
  await driver.reconcile([], NOBODY)
  await until('it is removed', () => engine.containers.size === 0)
  t.same(retired, ['rev_r1'])
})

t.test('credentials of registries', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-auth-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const { open } = await bench(t, {}, { docker_auth: folder })
  const driver = await open()
  const spec = { image_pull_secrets: [{ name: 'team' }] }
  await t.rejects(rollOut(driver, taskOf(1, spec)), { message: /WEFT_DOCKER_AUTH has no file team.json/ })
  writeFileSync(join(folder, 'team.json'), '{"auths":{"registry.test":{"auth":"dTpw"}}}')
  t.match(await rollOut(driver, taskOf(1, spec)), { graphs: [{ graph_id: 'agent' }] })
})

t.test('a replica that exits while it is deployed', async t => {
  const exits = (code: number, how = {}): FakeImage => ({
    program: container => {
      container.say(`it fails with ${SECRET}`)
      setImmediate(() => container.exit(code, how))
      return () => {}
    },
  })
  const { open, engine } = await bench(t, {
    'registry.test/team/app:3': exits(2),
    'registry.test/team/app:4': exits(137, { oom: true }),
    'registry.test/team/app:5': exits(1),
  })
  const driver = await open()
  await t.rejects(rollOut(driver, taskOf(3)), {
    name: 'Fault',
    message: 'deploy: a replica cannot start: it exited with code 2: it fails with [redacted]',
  })
  await t.rejects(rollOut(driver, taskOf(4)), {
    message: /more memory than its limit of 4096 MB \(resource_spec.memory_limit_mb\)/,
  })
  await t.rejects(rollOut(driver, taskOf(5)), { message: 'deploy: the replicas exit repeatedly; see the runtime log' })
  for (const n of [3, 4, 5]) await driver.undo(taskOf(n))
  t.equal(engine.containers.size, 0)
})

t.test('an exit whose event is lost', async t => {
  const program: FakeImage['program'] = container => {
    container.say(`it fails with ${SECRET}`)
    setImmediate(() => container.exit(2))
    return () => {}
  }
  const { open, engine } = await bench(t, { 'registry.test/team/app:3': { program } })
  const driver = await open()
  engine.mute()
  await t.rejects(rollOut(driver, taskOf(3)), {
    message: 'deploy: a replica cannot start: it exited with code 2: it fails with [redacted]',
  })
})

t.test('an active replica that dies is restarted by the engine', async t => {
  const { engine, open } = await bench(t, { 'proxy:1': { program: idle } })
  const driver = await open()
  const task = taskOf(1, { sidecars: [{ name: 'proxy', image: 'proxy:1' }] })
  const { artefact } = await rollOut(driver, task)
  await driver.reconcile([activeOf(task, artefact)], NOBODY)
  const main = [...engine.containers.values()].find(({ name }) => engine.running().includes(name))!
  main.exit(1)
  await until('it runs again', () => engine.requests.some(one => one.endsWith('/restart')))
  t.equal(main.state, 'running')
  t.pass('its sidecar is restarted in its new network')
})

t.test('an active replica that dies while no deploy worker runs', async t => {
  const { engine, open } = await bench(t, { 'proxy:1': { program: idle } })
  const driver = await open()
  const task = taskOf(1, { sidecars: [{ name: 'proxy', image: 'proxy:1' }] })
  const active = activeOf(task, (await rollOut(driver, task)).artefact)
  await driver.reconcile([active], NOBODY)
  await driver.stop(1)
  const main = [...engine.containers.values()].find(({ name }) => engine.running().includes(name))!
  main.exit(1)
  await until('the engine has started it again', () => main.state === 'running')
  const restarts = () => engine.requests.filter(one => one.endsWith('/restart')).length
  t.equal(restarts(), 0)
  const next = await open()
  await next.reconcile([active], NOBODY)
  t.equal(restarts(), 1, 'its sidecar is restarted in its new network')
  await next.reconcile([active], NOBODY)
  t.equal(restarts(), 1, 'once')
})

t.test('an unhealthy replica is not ready', async t => {
  const { engine, open, beat } = await bench(t, {
    'registry.test/team/app:3': {
      program: container => {
        container.health = 'unhealthy'
        setImmediate(() => beat(container))
        return idle(container)
      },
    },
  })
  const driver = await open()
  let isReady = false
  const done = rollOut(driver, taskOf(3)).then(() => (isReady = true))
  await until('it runs', () => engine.running().length === 1)
  await new Promise(done => setTimeout(done, 100))
  t.notOk(isReady)
  const container = [...engine.containers.values()][0]!
  container.health = 'healthy'
  beat(container)
  await done
})

t.test('the engine restarts while a revision is deployed and while one serves', async t => {
  const { engine, open, beat } = await bench(t, {
    'registry.test/team/app:3': { program: idle },
  })
  const driver = await open()
  const first = taskOf(1)
  const { artefact } = await rollOut(driver, first)
  const done = rollOut(driver, taskOf(3))
  await until('it runs', () => engine.running().length === 2)
  await engine.down()
  await t.rejects(driver.reconcile([activeOf(first, artefact)], new Set(['r3'])), 'it says so, and is repeated')
  await engine.up()
  beat([...engine.containers.values()].at(-1)!)
  t.match(await done, { graphs: [{ graph_id: 'agent' }] })
  await driver.reconcile([activeOf(first, artefact)], new Set(['r3']))
  t.equal(engine.running().length, 2)
})

t.test('the next deploy worker adopts what serves and sweeps what nobody knows', async t => {
  const { engine, open, retired } = await bench(t)
  const driver = await open()
  const [first, second] = [taskOf(1), taskOf(2)]
  const { artefact } = await rollOut(driver, first)
  await driver.reconcile([activeOf(first, artefact)], NOBODY)
  await rollOut(driver, second)
  await driver.stop(10)
  const ids = [...engine.containers.keys()]
  const next = await open()
  await next.reconcile([activeOf(first, artefact, { deploying_revision_id: 'r2' })], NOBODY)
  t.same([...engine.containers.keys()], ids, 'nothing was started or stopped')
  t.equal(next.scaling!.replicas('r1'), 1)
  await next.reconcile([activeOf(first, artefact)], NOBODY)
  await until('it is swept', () => engine.containers.size === 1)
  t.same(retired, ['rev_r2'])
  // One that somebody has removed is started again.
  for (const one of engine.containers.values()) one.exit(0)
  engine.containers.clear()
  await next.reconcile([activeOf(first, artefact)], NOBODY)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1'])
})

t.test('a deploy worker is killed between two steps of a roll-out', async t => {
  const { engine, open, beat } = await bench(t, { 'registry.test/team/app:3': { program: idle } })
  const spec: ResourceSpec = {
    queue_min_scale: 2,
    queue_max_scale: 2,
    volumes: [{ name: 'work', emptyDir: {} }],
    volume_mounts: [{ name: 'work', mountPath: '/work' }],
  }
  // Each request of the roll-out is the last one of a worker; the next worker has a higher epoch.
  const steps = 12
  for (let n = 0; n < steps; n++) {
    const stop = new AbortController()
    const driver = await open()
    const task = taskOf(3, spec, { epoch: n + 1 })
    const before = engine.requests.length
    const step = stepOf(task, [], stop.signal)
    const done = driver
      .build(step, async () => {})
      .then(({ artefact }) => driver.deploy(step, artefact))
      .catch(() => {})
    await until('some steps', () => engine.requests.length >= before + 3 + n || engine.running().length === 2)
    stop.abort()
    await driver.stop(1)
    await done
  }
  const driver = await open()
  const last = taskOf(3, spec, { epoch: steps + 1 })
  const done = rollOut(driver, last)
  const isNew = () => [...engine.containers.values()].filter(({ labels }) => labels['weft.epoch'] === String(steps + 1))
  await until('both run', () => isNew().filter(({ state }) => state === 'running').length === 2)
  for (const one of isNew()) beat(one)
  await done
  t.same(engine.running(), ['dep-support-1a2b3c4d-r3-g1-1', 'dep-support-1a2b3c4d-r3-g1-2'])
  t.equal(engine.containers.size, 2, 'and no other one is left')
  // The worker that has lost its lease wakes up late.
  await (await open()).undo(taskOf(3, spec, { epoch: 1 }))
  t.equal(engine.running().length, 2, 'it removes nothing of a later holder')
  await driver.undo(last)
  t.same([engine.containers.size, engine.volumes.size], [0, 0])
})

t.test('init containers, sidecars and volumes', async t => {
  const order: string[] = []
  const part = (code: number): FakeImage => ({
    program: container => {
      order.push(`${container.name.replace(/.*-g1-/, '')} starts`)
      if (code >= 0) setImmediate(() => container.exit(code))
      return () => container.exit(0)
    },
  })
  const { engine, open } = await bench(t, { 'init:1': part(0), 'bad:1': part(3), 'proxy:1': part(-1) })
  const driver = await open()
  const spec: ResourceSpec = {
    volumes: [
      { name: 'work', emptyDir: {} },
      { name: 'fast', emptyDir: { medium: 'Memory', sizeLimit: '32Mi' } },
      { name: 'data', persistentVolumeClaim: { claimName: 'models' } },
      { name: 'share', nfs: { server: '10.0.0.1', path: '/export', readOnly: true } },
    ],
    volume_mounts: [{ name: 'data', mountPath: '/models', readOnly: true }],
    init_containers: [
      { name: 'one', image: 'init:1', volumeMounts: [{ name: 'work', mountPath: '/work' }] },
      { name: 'two', image: 'init:1' },
    ],
    sidecars: [
      {
        name: 'proxy',
        image: 'proxy:1',
        restartPolicy: 'OnFailure',
        resources: { limits: { cpu: '250m', memory: '64Mi' } },
      },
    ],
  }
  t.same(driver.problems(taskOf(1, spec)), [])
  await rollOut(driver, taskOf(1, spec))
  t.same(order, ['1-one starts', '1-two starts', '1-proxy starts'])
  const [main, proxy] = [...engine.containers.values()]
  t.match(proxy!.body.HostConfig, {
    NetworkMode: `container:${main!.id}`,
    RestartPolicy: { Name: 'on-failure' },
    NanoCpus: 2.5e8,
    Memory: 64 * 2 ** 20,
  })
  t.match(main!.body.HostConfig.Mounts, [
    { Source: 'dep-support-1a2b3c4d-claim-models', Target: '/models', ReadOnly: true },
  ])
  t.same(
    [...engine.volumes.keys()],
    [
      'dep-support-1a2b3c4d-r1-g1-1-work',
      'dep-support-1a2b3c4d-r1-g1-1-fast',
      'dep-support-1a2b3c4d-claim-models',
      'dep-support-1a2b3c4d-g1-share',
    ],
  )
  await driver.undo(taskOf(1, spec))
  t.same(
    [...engine.volumes.keys()],
    ['dep-support-1a2b3c4d-claim-models', 'dep-support-1a2b3c4d-g1-share'],
    'claims stay with the deployment',
  )
  await t.rejects(rollOut(driver, taskOf(2, { init_containers: [{ name: 'bad', image: 'bad:1' }] })), {
    message: /the init container dep-support-1a2b3c4d-r2-g1-1-bad exited with code 3/,
  })
  await driver.undo(taskOf(2))
  t.equal(engine.containers.size, 0)
})

t.test('what needs a cluster is refused', async t => {
  const { open } = await bench(t)
  const driver = await open()
  const problems = driver.problems(
    taskOf(
      1,
      {
        service_account_name: 'x',
        volumes: [{ name: 'a', configMap: { name: 'x' } }],
        volume_mounts: [{ name: 'a', mountPath: '/a', subPath: 'b' }],
        sidecars: [
          {
            name: 's',
            image: 's:1',
            envFrom: [{}],
            securityContext: { privileged: true, runAsGroup: 5 },
            resources: { limits: { gpu: 1, cpu: 'much' } },
            ports: [{ hostPort: 22 }],
          } as never,
        ],
        labels: { team: 'a', 'traefik.enable': 'true' },
      },
      { secret_references: [{ name: 'A', secret_name: 'b', secret_key: 'c' }] },
    ),
  )
  t.same(
    problems.map(sentence => sentence.split(' ')[0]),
    [
      'secret_references',
      'resource_spec.service_account_name',
      'resource_spec.labels:',
      'resource_spec.volumes[0].configMap',
      'resource_spec.volume_mounts[0].subPath',
      'resource_spec.sidecars[0].envFrom',
      'resource_spec.sidecars[0].securityContext.privileged',
      'resource_spec.sidecars[0].resources.limits.gpu',
      'resource_spec.sidecars[0].resources.limits.cpu',
      'resource_spec.sidecars[0].ports',
      'resource_spec.sidecars[0].securityContext.runAsUser',
    ],
  )
})

t.test('texts that become options of the engine', async t => {
  const { open } = await bench(t)
  const driver = await open()
  const refused = (volume: object, image = 'x:1') =>
    driver
      .problems(taskOf(1, { volumes: [{ name: 'a', ...volume }], sidecars: [{ name: 's', image }] }))
      .map(sentence => sentence.replace('resource_spec.', ''))
  for (const server of ['files.test', '10.0.0.1', 'fd00::1'])
    t.same(refused({ nfs: { server, path: '/a b/c' } }), [], server)
  for (const server of ['files.test,nosuid', 'a b', '', '-o', 'a\nb', 5])
    t.same(refused({ nfs: { server, path: '/' } }), ['volumes[0].nfs.server must be a host'], `${server}`)
  for (const path of ['share', '/a,exec', '/a\nb'])
    t.same(refused({ nfs: { server: 'files.test', path } }), ['volumes[0].nfs.path must be a path'], path)
  t.same(refused({ nfs: {} }), ['volumes[0].nfs.server must be given', 'volumes[0].nfs.path must be given'])
  for (const claimName of ['../other', 'a,b', 'A', ''])
    t.same(
      refused({ persistentVolumeClaim: { claimName } }),
      ['volumes[0].persistentVolumeClaim.claimName must be a name'],
      claimName,
    )
  t.same(refused({ emptyDir: { sizeLimit: '1m,uid=0' } }), [
    'volumes[0].emptyDir.sizeLimit must be a quantity, as 256Mi',
  ])
  for (const image of ['../containers/json?all=1', '-x', 'a b', 'x:1?y=2'])
    t.same(refused({ emptyDir: {} }, image), ['sidecars[0].image must be [registry/]name[:tag][@sha256:digest]'], image)
})

t.test('an active revision gets no size that is refused', async t => {
  const { engine, open } = await bench(t)
  const driver = await open()
  const task = taskOf(1)
  const { artefact } = await rollOut(driver, task)
  const active = activeOf(task, artefact)
  await driver.reconcile([active], NOBODY)
  const changed = { ...active, generation: 2, resource_spec: { labels: { 'traefik.enable': 'true' } } }
  const before = engine.requests.length
  await driver.reconcile([changed], NOBODY)
  await driver.reconcile([changed], NOBODY)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1'], 'it keeps its old one')
  t.notOk(engine.requests.slice(before).some(one => one.includes('/create')))
  // The next deploy worker does not know the old size.
  await driver.stop(10)
  const next = await open()
  await next.reconcile([changed], NOBODY)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1'])
  t.notOk(engine.requests.slice(before).some(one => one.includes('/create')))
  await next.reconcile([{ ...changed, generation: 3, resource_spec: { memory_mb: 256 } }], NOBODY)
  await until('another one is taken', () => engine.running().join() === 'dep-support-1a2b3c4d-r1-g3-1')
})

t.test('another size, and more replicas', async t => {
  const { engine, open } = await bench(t)
  const driver = await open()
  const task = taskOf(1, { queue_max_scale: 5 })
  const { artefact } = await rollOut(driver, task)
  const active = activeOf(task, artefact)
  await driver.reconcile([active], NOBODY)
  await driver.scaling!.scale('r1', 3)
  t.equal(engine.running().length, 3)
  t.match([...engine.containers.values()][0]!.env, { WEFT_HAND_OVER: 'false' }, 'all runs are in the queue')
  await driver.scaling!.scale('r1', 1)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g1-1'])
  await driver.reconcile([{ ...active, generation: 2, resource_spec: { memory_mb: 256 } }], NOBODY)
  await until('it has the new size', () => engine.running().join() === 'dep-support-1a2b3c4d-r1-g2-1')
  await until('it is scaled again', () => driver.scaling!.replicas('r1') === 1)
  // A size that does not start leaves the old one.
  const broken: Program = container => {
    setImmediate(() => container.exit(2))
    return () => {}
  }
  engine.images.get('registry.test/team/app:1')!.program = broken
  await driver.reconcile([{ ...active, generation: 3 }], NOBODY)
  await until('it was tried', () => engine.requests.filter(one => one.endsWith('/containers/create')).length >= 5)
  await until('it is removed', () => engine.containers.size === 1)
  t.same(engine.running(), ['dep-support-1a2b3c4d-r1-g2-1'])
  await driver.reconcile([{ ...active, generation: 3 }], NOBODY)
  t.equal(driver.scaling!.replicas('r1'), 1, 'it is not tried again')
})

t.test('on the network of the machine nothing is probed', async t => {
  const { engine, open } = await bench(t, {}, { docker_network: 'host' })
  await rollOut(await open(), taskOf(1))
  const [{ body, env }] = [...engine.containers.values()] as [FakeContainer]
  t.same(body.Healthcheck, { Test: ['NONE'] })
  t.equal(env.WEFT_HEALTH_PORT, undefined)
})

t.test('addresses that containers do not reach, and an engine that does not answer', async t => {
  const { engine, open } = await bench(t)
  const driver = await open()
  await engine.down()
  await t.rejects(
    driver.build(stepOf(taskOf(1)), async () => {}),
    {
      name: 'Fault',
      message: /^image pull: the Docker Engine does not answer \(ENOENT\); DOCKER_HOST names it$/,
    },
  )
  await engine.up()
  await t.rejects(
    openEngine({ docker_host: 'ssh://x', docker_certs: '' }),
    /DOCKER_HOST must begin with unix:\/\/ or tcp:\/\//,
  )
})
