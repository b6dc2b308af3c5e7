/** The docker driver on a Docker Engine: what an imitation of one cannot show. Skipped where this machine runs none. */
import { readlinkSync } from 'node:fs'
import t, { type Test } from 'tap'
import { activeOf, NOBODY, openTestBeats, rollOut, taskOf, until } from '../image-tasks.js'
import { type Dockerd, startDockerd } from './dockerd.js'
import { openTestDrivers } from './test-drivers.js'

t.setTimeout(120_000)

/** Nothing listens there. */
const REGISTRY = '127.0.0.1:1/team'
const MAIN = 'dep-support-1a2b3c4d-r1-g1-1'
const stay = 'trap "exit 0" TERM; while :; do sleep 0.1; done'
/** Each image executes one of these. */
const PROGRAMS = {
  app: `cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max
        echo "pids $(cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max)"
        echo "a file of $(cat /room/file)"
        touch /models/x 2>/dev/null || echo 'the claim is read-only'
        grep -q ' /fast tmpfs .*size=1024k' /proc/mounts && echo 'the volume in memory has its size'
        ${stay}`,
  init: 'echo the init container >/room/file',
  // Its network has the interfaces of the replica.
  sidecar: `cat /sys/class/net/eth0/address >/room/address; ${stay}`,
  greedy: 'exec tail /dev/zero',
}

const dockerd = await startDockerd({ hasNetwork: true }).catch((error: Error) => error.message)
const skip = typeof dockerd === 'string' && dockerd
if (typeof dockerd !== 'string') {
  t.teardown(() => dockerd.close())
  for (const [name, program] of Object.entries(PROGRAMS))
    dockerd.makeImage(`${REGISTRY}/${name}`, '1', [
      `ENTRYPOINT ${JSON.stringify(['/bin/sh', '-c', program])}`,
      'ENV PATH=/usr/bin:/bin',
    ])
}

function bench(t: Test) {
  const engine = dockerd as Dockerd
  const list = (path: string) => JSON.parse(engine.ask(path))
  const containers = (): { Names: string[]; State: string }[] => list('/containers/json?all=true')
  const drivers = openTestDrivers(t, { host: engine.host, ...openTestBeats() })
  const taskWith = (name: string, spec = {}) =>
    taskOf(1, spec, { revision: { source_revision_config: { image_uri: `${REGISTRY}/${name}:1` } } } as never)
  /** Asks for the main container, unless another one is named. */
  const inspect = (name = MAIN) => list(`/containers/${name}/json`) as { State: { Running: boolean; Pid: number } }
  const isRunning = (name: string) =>
    containers().some(({ Names, State }) => Names.includes(`/${name}`) && State === 'running')
  return {
    ...drivers,
    engine,
    taskWith,
    inspect,
    isRunning,
    /** The first replica says that it is ready. */
    async ready() {
      await until('the replica runs', () => isRunning(MAIN))
      drivers.beat({ env: { WEFT_REVISION: 'r1', WEFT_POOL: 'rev_r1', WEFT_REPLICA: MAIN } })
    },
    names: () => ({
      containers: containers().flatMap(({ Names }) => Names),
      networks: (list('/networks') as { Name: string }[])
        .map(({ Name }) => Name)
        .filter(name => name.startsWith('dep-')),
      volumes: ((list('/volumes').Volumes ?? []) as { Name: string }[]).map(({ Name }) => Name),
    }),
  }
}

t.test('limits, volumes, an init container, a sidecar, and their removal', { skip }, async t => {
  const { open, taskWith, ready, lines, names, retired } = bench(t)
  const driver = await open()
  const task = taskWith('app', {
    memory_mb: 64,
    memory_limit_mb: 128,
    cpu: 0.5,
    volumes: [
      { name: 'work', emptyDir: {} },
      { name: 'fast', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
      { name: 'data', persistentVolumeClaim: { claimName: 'models' } },
    ],
    volume_mounts: [
      { name: 'work', mountPath: '/room' },
      { name: 'fast', mountPath: '/fast' },
      { name: 'data', mountPath: '/models', readOnly: true },
    ],
    init_containers: [
      { name: 'first', image: `${REGISTRY}/init:1`, volumeMounts: [{ name: 'work', mountPath: '/room' }] },
    ],
    sidecars: [
      { name: 'beside', image: `${REGISTRY}/sidecar:1`, volumeMounts: [{ name: 'work', mountPath: '/room' }] },
    ],
  })
  const said: string[] = []
  const done = rollOut(driver, task, said)
  await ready()
  const { artefact, graphs } = await done
  t.match(said.join(), /connection refused; the engine has the image .* and uses it/)
  t.match(artefact, /^sha256:/, 'no registry has it')
  t.match(graphs, [{ graph_id: 'agent' }])
  await until('its output is in the runtime log', () => lines.length >= 6)
  t.same(lines, [
    `init container ${MAIN}-first`,
    `${128 * 2 ** 20}`,
    'pids 4096',
    'a file of the init container',
    'the claim is read-only',
    'the volume in memory has its size',
  ])
  t.same(names().containers.sort(), [`/${MAIN}`, `/${MAIN}-beside`])
  t.same(names().networks, ['dep-support-1a2b3c4d'])

  await driver.reconcile([activeOf(task, artefact)], NOBODY)
  await driver.destroy(task)
  t.same(names(), { containers: [], networks: [], volumes: [] })
  t.same(retired, ['rev_r1'])
})

t.test('a replica that needs too much memory', { skip }, async t => {
  const { open, taskWith, names } = bench(t)
  const driver = await open()
  const task = taskWith('greedy', { memory_mb: 16, memory_limit_mb: 32 })
  await t.rejects(rollOut(driver, task), {
    message: /more memory than its limit of 32 MB \(resource_spec.memory_limit_mb\)/,
  })
  await driver.undo(task)
  t.same(names().containers, [])
})

t.test('an active replica that dies while no deploy worker runs', { skip }, async t => {
  const { open, taskWith, ready, inspect, isRunning, names } = bench(t)
  const driver = await open()
  const sidecar = {
    name: 'beside',
    image: `${REGISTRY}/sidecar:1`,
    volumeMounts: [{ name: 'work', mountPath: '/room' }],
  }
  const task = taskWith('app', { volumes: [{ name: 'work', emptyDir: {} }], sidecars: [sidecar] })
  const done = rollOut(driver, task)
  await ready()
  const active = activeOf(task, (await done).artefact)
  await driver.reconcile([active], NOBODY)
  await driver.stop(10)
  const { Pid } = inspect().State
  process.kill(Pid, 'SIGKILL')
  await until('the engine has started it again', () => inspect().State.Running && inspect().State.Pid !== Pid)

  const next = await open()
  await next.reconcile([active], NOBODY)
  t.ok(isRunning(MAIN), 'the next deploy worker adopts it')
  /** null: it does not run. */
  const networkOf = (name: string) => {
    try {
      return readlinkSync(`/proc/${inspect(name).State.Pid}/ns/net`)
    } catch {
      return null
    }
  }
  const isTogether = () => {
    const network = networkOf(MAIN)
    return network !== null && network === networkOf(`${MAIN}-beside`)
  }
  await until('its sidecar is in its new network', isTogether)
  const second = inspect().State.Pid
  process.kill(second, 'SIGKILL')
  await until('it runs again', () => inspect().State.Running && inspect().State.Pid !== second)
  await until('its sidecar is in the next one', isTogether)
  await next.destroy(task)
  t.same(names(), { containers: [], networks: [], volumes: [] })
})
