/** The kubernetes driver with the real client, against a cluster of the tests: each row of a roll-out, and what goes wrong. */
import t, { type Test } from 'tap'
import { openLog } from '../../../bus/log.js'
import { readConfig } from '../../../schemas/config.js'
import type { ResourceSpec } from '../../../schemas/deployments.js'
import type { Driver } from '../../../workers/deploy/driver.js'
import { openCluster } from '../../../workers/deploy/kubernetes/cluster.js'
import { openKubernetesDriver } from '../../../workers/deploy/kubernetes/driver.js'
import { activeOf, ID, NOBODY, openTestBeats, rollOut, SECRET, stepOf, taskOf, until } from '../image-tasks.js'
import { type FakeCluster, startApiServer } from './api-server.js'
import type { FakePod, Program } from './nodes.js'

t.setTimeout(60_000)

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

interface Bench {
  cluster: FakeCluster
  lines: string[]
  retired: string[]
  beat(pod: FakePod): void
  /** A deploy worker: each has its own memory. */
  open(settings?: object): Promise<Driver>
}

/** Says that it is ready, and stays. */
const worker =
  (beat: (pod: FakePod) => void): Program =>
  pod => {
    pod.say('{"level":30,"msg":"started"}')
    setImmediate(() => {
      beat(pod)
      pod.ready()
    })
    return () => pod.exit(0)
  }

/** Stays until it is ended, and is never ready. */
const idle: Program = pod => () => pod.exit(0)

async function bench(
  t: Test,
  more: { [name: string]: Program } = {},
  given: Parameters<typeof startApiServer>[1] = {},
): Promise<Bench> {
  const { beats, beat } = openTestBeats()
  const good = worker(beat)
  const images = { 'registry.test/team/app:1': good, 'registry.test/team/app:2': good, ...more }
  const cluster = await startApiServer(images, given)
  const lines: string[] = []
  const retired: string[] = []
  const drivers: Driver[] = []
  t.teardown(async () => {
    for (const driver of drivers) await driver.stop(10)
    beats.close()
    await cluster.close()
  })
  return {
    cluster,
    lines,
    retired,
    beat,
    async open(settings = {}) {
      const times = { deploy_stable_ms: 20, stop_ms: 200, drain_ms: 500 }
      const config = readConfig({}, { ...times, kubeconfig: cluster.access().kubeconfig, ...settings })
      const driver = openKubernetesDriver({
        cluster: await openCluster(config),
        config,
        nats_url: 'nats://graphs:password@broker.test:4222',
        server: 'https://weft.test',
        beats,
        log,
        logOf: () => ({ of: () => (_, line) => void lines.push(line), flush: async () => {} }),
        env: async () => ({
          env: { TOKEN: SECRET },
          env_version: 's1',
          pool_user: { user: 'app.pool', password: 'a password' },
        }),
        retire: async pool => void retired.push(pool),
        look_ms: 10,
        pauses_ms: [10, 50],
      })
      drivers.push(driver)
      return driver
    },
  }
}

const imagesOf = ({ nodes }: FakeCluster) =>
  nodes
    .running()
    .map(({ image }) => image.split(':')[1])
    .sort()

t.test('a roll-out, a cutover, a drain and a delete', async t => {
  const { cluster, open, retired, lines } = await bench(t)
  const driver = await open()
  const first = taskOf(1, { queue_min_scale: 2, queue_max_scale: 2, labels: { team: 'a' } })
  const said: string[] = []
  t.match(await rollOut(driver, first, said), { graphs: [{ graph_id: 'agent' }], artefact: 'registry.test/team/app:1' })
  t.same(said, ['applied Deployment support-1a2b3c4d-r1-g1 in namespace default', 'ready: agent'])
  t.same(imagesOf(cluster), ['1', '1'])
  const [pod] = cluster.nodes.running()
  t.match(pod!.env, {
    TOKEN: SECRET,
    NATS_URL: 'nats://app.pool:a%20password@broker.test:4222',
    WEFT_APP_ID: ID,
    WEFT_POOL: 'rev_r1',
    WEFT_REVISION: 'r1',
    WEFT_HAND_OVER: 'true',
    WEFT_REPLICA: pod!.name,
    LANGGRAPH_API_URL: 'https://weft.test/deployments/support-1a2b3c4d',
  })
  t.match(pod!.labels, { team: 'a', 'weft.dev/deployment': ID, 'weft.dev/revision': 'r1' })
  t.same(cluster.names('PodDisruptionBudget'), ['support-1a2b3c4d-r1-g1'])
  await driver.reconcile([activeOf(first, 'registry.test/team/app:1')], NOBODY)

  const second = taskOf(2)
  const { artefact } = await rollOut(driver, second)
  t.same(imagesOf(cluster), ['1', '1', '2'], 'beside the first')
  await driver.reconcile([activeOf(second, artefact)], NOBODY)
  await until('the first is drained', () => cluster.objects.all('ConfigMap').length === 1)
  t.same(retired, ['rev_r1'])
  t.same(imagesOf(cluster), ['2'])
  t.same(cluster.names('Secret').length, 1)
  t.ok(lines.includes('{"level":30,"msg":"started"}'), 'its output is in the runtime log')
  const started = cluster.nodes.started
  await driver.destroy(second)
  t.equal(cluster.nodes.started, started, 'no pod was replaced meanwhile')
  for (const kind of ['ConfigMap', 'Secret', 'Deployment', 'PodDisruptionBudget', 'Pod'])
    t.same(cluster.names(kind), [], kind)
  t.same(retired, ['rev_r1', 'rev_r2'])
})

t.test('a roll-out that cannot become ready ends early, and says why', async t => {
  const exits =
    (code: number, how = {}): Program =>
    pod => {
      pod.say(`it fails with ${SECRET}`)
      setImmediate(() => pod.exit(code, how))
      return () => {}
    }
  const { open, cluster } = await bench(t, {
    'registry.test/team/app:3': exits(2),
    'registry.test/team/app:4': exits(137, { oom: true }),
    'registry.test/team/app:5': exits(1),
    'init:1': pod => {
      setImmediate(() => pod.exit(3))
      return () => {}
    },
  })
  const driver = await open()
  const fails = (n: number, message: RegExp, spec: ResourceSpec = {}, more: object = {}) =>
    t.rejects(rollOut(driver, taskOf(n, spec, more)), { name: 'Fault', message, retryable: false })
  await fails(3, /^deploy: pod support-\S+: it exited with code 2: it fails with \[redacted\]$/)
  await fails(4, /needed more memory than its limit \(resource_spec.memory_limit_mb\)/)
  await fails(5, /it exits repeatedly, with code 1/)
  await fails(6, /ErrImagePull: failed to pull and unpack image "registry.test\/team\/app:6": not found/)
  const missing = { secret_references: [{ name: 'KEY', secret_name: 'keys', secret_key: 'a' }] }
  await fails(1, /CreateContainerConfigError: secret "keys" not found/, {}, missing)
  await driver.undo(taskOf(1))
  await fails(1, /container init: it exits repeatedly, with code 3/, {
    init_containers: [{ name: 'init', image: 'init:1' }],
  })
  await fails(2, /the cluster refuses it: .*metadata.labels: Invalid value: "not a label"/, {
    labels: { a: 'not a label' },
  })
  cluster.nodes.quota = 'pods "support" is forbidden: exceeded quota: small'
  await fails(7, /its pods are refused: pods "support" is forbidden: exceeded quota: small/)
  for (const n of [1, 2, 3, 4, 5, 6, 7]) await driver.undo(taskOf(n))
  for (const kind of ['ConfigMap', 'Secret', 'Deployment', 'Pod']) t.same(cluster.names(kind), [], kind)
})

t.test('a roll-out that makes no progress', async t => {
  const { open, cluster } = await bench(t)
  cluster.nodes.hasRoom = false
  const driver = await open()
  let failure: Error | null = null
  const done = rollOut(driver, taskOf(1)).catch(error => {
    failure = error
  })
  await until('its pod waits', () => cluster.objects.all('Pod').length === 1)
  await new Promise(done => setTimeout(done, 100))
  t.equal(failure, null, 'a pod without a node waits')
  const [deployment] = cluster.objects.all('Deployment')
  const conditions = [{ type: 'Progressing', status: 'False', reason: 'ProgressDeadlineExceeded', message: 'late' }]
  deployment!.status = { ...deployment!.status, conditions }
  await done
  t.match(failure, { message: 'deploy: 0/3 nodes are available: 3 Insufficient cpu.' })
})

t.test('a replica that is not ready, and one that was restarted', async t => {
  let pod: FakePod | null = null
  const { open, beat } = await bench(t, {
    'registry.test/team/app:3': one => {
      pod = one
      return () => one.exit(0)
    },
  })
  const driver = await open({ deploy_stable_ms: 1_000 })
  let isDone = false
  const done = rollOut(driver, taskOf(3)).then(() => {
    isDone = true
  })
  await until('it runs', () => pod !== null)
  pod!.ready()
  await new Promise(done => setTimeout(done, 50))
  t.notOk(isDone, 'it did not report to the broker')
  beat(pod!)
  await new Promise(done => setTimeout(done, 150))
  const first = pod!
  pod = null
  first.exit(1)
  await until('it runs again', () => pod !== null)
  const restarted = Date.now()
  pod!.ready()
  await done
  t.ok(Date.now() - restarted >= 950, 'the stable time begins again')
})

t.test('the cluster does not answer while a revision is deployed and while one serves', async t => {
  const { cluster, open, beat } = await bench(t, { 'registry.test/team/app:3': idle })
  const driver = await open()
  const first = taskOf(1)
  const { artefact } = await rollOut(driver, first)
  const done = rollOut(driver, taskOf(3))
  await until('it runs', () => cluster.nodes.running().length === 2)
  await cluster.down()
  await t.rejects(driver.reconcile([activeOf(first, artefact)], new Set(['r3'])), 'it says so, and is repeated')
  await cluster.up()
  cluster.fault = 503
  await new Promise(done => setTimeout(done, 50))
  cluster.fault = null
  const pod = cluster.nodes.running().find(({ image }) => image.endsWith(':3'))!
  beat(pod)
  pod.ready()
  t.match(await done, { graphs: [{ graph_id: 'agent' }] })
  await driver.reconcile([activeOf(first, artefact)], new Set(['r3']))
  t.equal(cluster.nodes.running().length, 2)
  cluster.fault = 403
  await t.rejects(rollOut(driver, taskOf(2)), { name: 'Fault', message: 'deploy: the cluster refuses it: fault 403' })
})

t.test('the next deploy worker adopts what serves and sweeps what nobody knows', async t => {
  const { cluster, open, retired } = await bench(t)
  const driver = await open()
  const [first, second] = [taskOf(1), taskOf(2)]
  const { artefact } = await rollOut(driver, first)
  await driver.reconcile([activeOf(first, artefact)], NOBODY)
  await rollOut(driver, second)
  await driver.stop(10)
  const pods = cluster.names('Pod')
  const next = await open()
  await next.reconcile([activeOf(first, artefact, { deploying_revision_id: 'r2' })], NOBODY)
  t.same(cluster.names('Pod'), pods, 'nothing was started or stopped')
  t.equal(next.scaling!.replicas('r1'), 1)
  await next.reconcile([activeOf(first, artefact)], NOBODY)
  await until('it is swept', () => retired.length > 0 && cluster.names('ConfigMap').length === 1)
  t.same(retired, ['rev_r2'])
  // One that somebody has removed is started again.
  const [deployment] = cluster.objects.all('Deployment')
  deployment!.metadata.deletionTimestamp = new Date().toISOString()
  cluster.nodes.look()
  await until('it is gone', () => cluster.names('Deployment').length === 0)
  await next.reconcile([activeOf(first, artefact)], NOBODY)
  await until('it runs', () => cluster.nodes.running().length === 1)
})

t.test('other settings of the deploy worker reach what serves, one pod after another', async t => {
  const { cluster, open } = await bench(t)
  const first = taskOf(1)
  const driver = await open()
  const { artefact } = await rollOut(driver, first)
  await driver.stop(10)
  const next = await open({ log_level: 'debug' })
  await next.reconcile([activeOf(first, artefact)], NOBODY)
  await until('a new pod', () => cluster.nodes.running().every(({ env }) => env.LOG_LEVEL === 'debug'))
  await until('old objects are removed', () => cluster.names('ConfigMap').length === 1)
  t.equal(cluster.nodes.running().length, 1)
  t.equal(cluster.names('Deployment').length, 1)
})

t.test('a deploy worker is killed between two steps of a roll-out', async t => {
  const { cluster, open, beat } = await bench(t, { 'registry.test/team/app:3': idle })
  const spec: ResourceSpec = { queue_min_scale: 2, queue_max_scale: 3 }
  const steps = 10
  // Each request of the roll-out is the last one of a worker; the next worker has a higher epoch.
  for (let n = 0; n < steps; n++) {
    const stop = new AbortController()
    const driver = await open()
    const task = taskOf(3, spec, { epoch: n + 1 })
    const before = cluster.requests.length
    const done = driver.deploy(stepOf(task, [], stop.signal), 'registry.test/team/app:3').catch(() => {})
    await until('some steps', () => cluster.requests.length > before + n || cluster.nodes.running().length === 2)
    stop.abort()
    await driver.stop(1)
    await done
  }
  const driver = await open()
  const last = taskOf(3, spec, { epoch: steps + 1 })
  const done = rollOut(driver, last)
  await until('both run', () => cluster.nodes.running().length === 2)
  const epochs = () => cluster.objects.all('Deployment').map(({ metadata }) => metadata.annotations!['weft.dev/epoch'])
  await until('it is of the last worker', () => epochs().join() === String(steps + 1))
  for (const pod of cluster.nodes.running()) {
    beat(pod)
    pod.ready()
  }
  await done
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r3-g1'])
  // The worker that has lost its lease wakes up late.
  await (await open()).undo(taskOf(3, spec, { epoch: 1 }))
  t.equal(cluster.nodes.running().length, 2, 'it removes nothing of a later holder')
  await driver.undo(last)
  for (const kind of ['ConfigMap', 'Secret', 'Deployment', 'Pod']) t.same(cluster.names(kind), [], kind)
})

t.test('another size, and more replicas', async t => {
  let isBroken = false
  const { cluster, open, beat } = await bench(t, {
    'registry.test/team/app:3': pod => {
      if (isBroken) setImmediate(() => pod.exit(2))
      else return worker(beat)(pod)
      return () => {}
    },
  })
  const driver = await open({ image_labels: 'a' })
  const task = taskOf(3, { queue_max_scale: 5 })
  const { artefact } = await rollOut(driver, task)
  const active = activeOf(task, artefact)
  await driver.reconcile([active], NOBODY)
  await driver.scaling!.scale('r3', 3)
  t.equal(cluster.nodes.running().length, 3)
  t.match(cluster.nodes.running()[0]!.env, { WEFT_HAND_OVER: 'false' }, 'all runs are in the queue')
  await driver.reconcile([{ ...active, generation: 2, resource_spec: { queue_max_scale: 2, memory_mb: 256 } }], NOBODY)
  t.equal(driver.scaling!.replicas('r3'), null, 'not scaled meanwhile')
  await until('it has the new size', () => cluster.names('Deployment').join() === 'support-1a2b3c4d-r3-g2')
  await until('it is scaled again', () => driver.scaling!.replicas('r3') === 2)
  t.equal(cluster.nodes.running().length, 2, 'its load stays the same')
  // One that the cluster refuses, and one that does not start, leave the old one.
  await driver.reconcile([{ ...active, generation: 9, resource_spec: { labels: { a: 'not a label' } } }], NOBODY)
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r3-g2'])
  t.equal(driver.scaling!.replicas('r3'), 2)
  isBroken = true
  const broken = { ...active, generation: 3 }
  await driver.reconcile([broken], NOBODY)
  await until('it was tried', () => cluster.names('Deployment').length === 2)
  await until('it is removed', () => cluster.names('Deployment').length === 1 && cluster.names('Secret').length === 1)
  await driver.reconcile([broken], NOBODY)
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r3-g2'])
  t.equal(driver.scaling!.replicas('r3'), 2)
  // The next worker tries once more, and keeps the old one too.
  const next = await open()
  await next.reconcile([broken], NOBODY)
  await until('it was tried', () => cluster.names('Deployment').length === 2)
  await until('it is removed', () => cluster.names('Deployment').length === 1 && cluster.names('Secret').length === 1)
  await next.reconcile([broken], NOBODY)
  t.equal(cluster.nodes.running().length, 2)
})

t.test('somebody else has changed an object', async t => {
  const { cluster, open } = await bench(t)
  const task = taskOf(1)
  const driver = await open()
  const { artefact } = await rollOut(driver, task)
  await driver.stop(10)
  const [deployment] = cluster.objects.all('Deployment')
  cluster.objects.set(deployment!, 'spec/replicas', 0, 'somebody')
  cluster.objects.set(deployment!, 'metadata/annotations/theirs', 'kept', 'somebody')
  cluster.nodes.look()
  const next = await open()
  await next.reconcile([activeOf(task, artefact)], NOBODY)
  await until('it runs again', () => cluster.nodes.running().length === 1)
  t.match(deployment!.metadata.annotations, { theirs: 'kept', 'weft.dev/epoch': 'active' })
})

t.test('KEDA scales where it is configured', async t => {
  const { cluster, open } = await bench(t, {}, { keda: true })
  const driver = await open({ kubernetes_keda: 'nats.weft:8222' })
  const task = taskOf(1, { queue_max_scale: 5 })
  const { artefact } = await rollOut(driver, task)
  await driver.reconcile([activeOf(task, artefact)], NOBODY)
  t.same(cluster.names('ScaledObject'), ['support-1a2b3c4d-r1-g1'])
  t.equal(driver.scaling!.replicas('r1'), null, 'the deploy worker does not')
  const [deployment] = cluster.objects.all('Deployment')
  cluster.objects.set(deployment!, 'spec/replicas', 4, 'keda')
  cluster.nodes.look()
  await driver.stop(10)
  const next = await open({ kubernetes_keda: 'nats.weft:8222' })
  await next.reconcile([activeOf(task, artefact)], NOBODY)
  await until('its pods are found', () => cluster.nodes.running().length === 4)
  await next.stop(10)
  const without = await open()
  await without.reconcile([activeOf(task, artefact)], NOBODY)
  await until('it is removed', () => cluster.names('ScaledObject').length === 0)
  t.equal(without.scaling!.replicas('r1'), 4)
  const none = await bench(t)
  await t.rejects(rollOut(await none.open({ kubernetes_keda: 'x:1' }), task), {
    message: 'deploy: the cluster has no KEDA, which WEFT_KUBERNETES_KEDA needs',
  })
})

t.test('namespaces', async t => {
  const { cluster, open, retired } = await bench(t, {}, { namespaces: ['default', 'team-a'] })
  const driver = await open({ kubernetes_namespaces: 'default, team-a, closed' })
  const inNamespace = (n: number, k8s_namespace: string) => {
    const task = taskOf(n)
    task.deployment.source_config.listener_config = { k8s_namespace }
    return task
  }
  const task = inNamespace(1, 'team-a')
  const { artefact } = await rollOut(driver, task)
  t.equal(cluster.nodes.running()[0]!.namespace, 'team-a')
  await driver.reconcile([activeOf(task, artefact, { namespace: 'team-a' })], NOBODY)
  await driver.reconcile([], NOBODY)
  await until('it is drained', () => retired.length === 1 && cluster.names('ConfigMap').length === 0)
  await t.rejects(rollOut(driver, inNamespace(2, 'closed')), { message: /namespaces "closed" not found/ })
  await t.rejects(open({ kubernetes_namespaces: ',' }), { message: /^WEFT_KUBERNETES_NAMESPACES must name/ })
  t.same(driver.problems(inNamespace(1, 'kube-system')), [
    'listener_config.k8s_namespace must be one of WEFT_KUBERNETES_NAMESPACES: default, team-a, closed',
  ])
})

t.test('what gives power over the cluster is refused', async t => {
  const { open } = await bench(t)
  const driver = await open({ kubernetes_service_accounts: 'models' })
  const problems = driver.problems(
    taskOf(1, {
      service_account_name: 'admin',
      volumes: [{ name: 'a', csi: { driver: 'x' } }],
      init_containers: [{ name: 'i', image: 'i:1', restartPolicy: 'Always' }],
      sidecars: [
        { name: 's', image: 's:1', restartPolicy: 'OnFailure' },
        { name: 'p', image: 'p:1', securityContext: { privileged: true, capabilities: { add: ['SYS_ADMIN'] } } },
      ],
    }),
  )
  t.same(
    problems.map(sentence => sentence.split(' ')[0]),
    [
      'resource_spec.service_account_name',
      'resource_spec.volumes[0].csi',
      'resource_spec.init_containers[0].restartPolicy',
      'resource_spec.sidecars[0].restartPolicy',
      'resource_spec.sidecars[1].securityContext.privileged',
      'resource_spec.sidecars[1].securityContext.capabilities.add',
    ],
  )
  t.same(driver.problems(taskOf(1, { service_account_name: 'models' })), [])
})

t.test('an active revision gets no size that is refused', async t => {
  const { cluster, open } = await bench(t)
  const driver = await open()
  const task = taskOf(1)
  const { artefact } = await rollOut(driver, task)
  const active = activeOf(task, artefact)
  await driver.reconcile([active], NOBODY)
  const sidecars = [{ name: 's', image: 's:1', securityContext: { privileged: true } }]
  const changed = { ...active, generation: 2, resource_spec: { sidecars } }
  await driver.reconcile([changed], NOBODY)
  await driver.reconcile([changed], NOBODY)
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r1-g1'], 'it keeps its old one')
  t.equal(driver.scaling!.replicas('r1'), 1)
  // The next deploy worker does not know the old size.
  const next = await open()
  await next.reconcile([changed], NOBODY)
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r1-g1'])
  await next.reconcile([{ ...active, namespace: 'kube-system', generation: 3 }], NOBODY)
  t.same(cluster.names('Deployment'), ['support-1a2b3c4d-r1-g1'], 'nor another namespace')
  await next.reconcile([{ ...changed, generation: 4, resource_spec: { memory_mb: 256 } }], NOBODY)
  await until('another one is taken', () => cluster.names('Deployment').join() === 'support-1a2b3c4d-r1-g4')
})

t.test('a cluster that is not there', async t => {
  await t.rejects(openCluster({ kubeconfig: '/nowhere/config' }), { message: /^KUBECONFIG cannot be read: / })
  const { cluster, open } = await bench(t)
  const driver = await open()
  await cluster.down()
  const lines: string[] = []
  await t.rejects(rollOut(driver, taskOf(1), lines), {
    name: 'Fault',
    message: /^deploy: the cluster does not answer: .*ECONNREFUSED/,
  })
  t.match(lines, [/ECONNREFUSED.*; trying again in 0.01 s/, /; trying again/])
  await cluster.up()
})
