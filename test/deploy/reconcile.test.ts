/** Deployment and reconciliation at the same time: a revision of a task in hand is never taken for a leftover. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openFigures } from '../../bus/figures.js'
import { openLog } from '../../bus/log.js'
import { readConfig } from '../../schemas/config.js'
import type { DeployAdvance, DeployTask } from '../../schemas/deploy-calls.js'
import { findHostNode } from '../../workers/child/node.js'
import { erase } from '../../workers/child/user-tree.js'
import { openDeployer } from '../../workers/deploy/deployer.js'
import type { Driver } from '../../workers/deploy/driver.js'
import { openRevisionLog } from '../../workers/deploy/log.js'
import { openArtefacts, writeDurably } from '../../workers/deploy/process/artefacts.js'
import { markOf } from '../../workers/deploy/process/builder.js'
import { openProcessDriver } from '../../workers/deploy/process/driver.js'
import { MARK } from '../../workers/deploy/process/leftovers.js'
import type { ProcessOptions } from '../../workers/deploy/process/options.js'
import { openRecords } from '../../workers/deploy/process/records.js'
import type { TaskClient } from '../../workers/deploy/task-client.js'
import { parseAllowed } from '../../workers/outbound.js'
import { figureOf } from '../helpers/figures.js'

t.setTimeout(60_000)

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')
const ID = '0198f2a5-0000-7000-8000-000000000000'

const taskOf = (revision_id: string, more: Partial<DeployTask> = {}): DeployTask =>
  ({
    deployment_id: ID,
    slug: 'x',
    revision_id,
    epoch: 1,
    kind: 'deploy',
    stage: 'DEPLOYING',
    seq: 1,
    generation: 1,
    pool: `rev_${revision_id}`,
    deployment: { name: 'x', source_config: { resource_spec: null } },
    env: {},
    pool_user: null,
    artefact: null,
    repo_commit_sha: null,
    ...more,
  }) as DeployTask

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'weft-reconcile-'))
  t.teardown(() => erase(folder))
  return folder
}

const logOf = (ids: { deployment_id: string; revision_id: string }) => openRevisionLog(ids, async () => {}, log)

const openDriver = (
  folder: string,
  retire: (pool: string) => Promise<void> = async () => {},
  more: Partial<ProcessOptions> = {},
): Promise<Driver> =>
  openProcessDriver({
    folder,
    config: readConfig({}, { stop_ms: 200 }),
    // Nothing listens there: a replica never becomes ready.
    nats_url: 'nats://127.0.0.1:1',
    user: null,
    sandboxes: null,
    node: findHostNode('', null),
    ours: process.env,
    sources: { local: [], allowed: parseAllowed('') },
    versions: { weft: '0', langgraph: '0' },
    log,
    figures: openFigures(),
    logOf,
    env: async () => ({ env: {}, env_version: '', pool_user: null }),
    uploads: {
      find: async () => t.fail('no upload is read here') as never,
      part: async () => t.fail('no upload is read here') as never,
    },
    retire,
    ...more,
  })

t.test('the first revision of a deployment is not retired while it starts', async t => {
  const folder = folderOf(t)
  const tree = join(folder, 'made')
  mkdirSync(tree)
  writeFileSync(join(tree, 'langgraph.json'), '{"graphs":{}}')
  const key = 'a'.repeat(64)
  await (await openArtefacts(join(folder, 'artefacts'))).keep(key, tree, 'langgraph.json')
  const retired: string[] = []
  const driver = await openDriver(folder, async pool => void retired.push(pool))
  const task = taskOf('r1')
  t.teardown(() => driver.stop(200))
  const stop = new AbortController()
  const deployed = driver.deploy({ task, signal: stop.signal, log: () => () => {} }, key)
  deployed.catch(() => {})
  const file = join(folder, 'deployments', `${ID}.json`)
  // The record is written before the replicas start: reconcile at every moment between.
  const held = new Set([task.revision_id])
  while (!existsSync(file)) {
    await driver.reconcile([], held)
    await turn()
  }
  for (let i = 0; i < 20; i++) await driver.reconcile([], held)
  t.same(retired, [], 'its pool stays')
  t.same(JSON.parse(readFileSync(file, 'utf8')), [{ revision_id: 'r1', pool: 'rev_r1', artefact: key }])
  stop.abort()
  await t.rejects(deployed, { name: 'Stopped' })
  await driver.undo(task)
  t.same(retired, ['rev_r1'], 'a stopped one is retired')
})

t.test('a build whose stages take too long together fails', async t => {
  const folder = folderOf(t)
  const source = join(folder, 'source')
  mkdirSync(source)
  writeFileSync(join(source, 'langgraph.json'), '{"graphs":{"agent":"./graph.mjs:graph"}}')
  const sources = { local: [folder], allowed: parseAllowed('') }
  const driver = await openDriver(join(folder, 'deploy'), undefined, { sources, build_ms: 2_000 })
  const base = taskOf('r1', { stage: 'AWAITING_BUILD' })
  const task = {
    ...base,
    deployment: { name: 'x', source_config: { resource_spec: null, repo_url: source } },
    revision: {
      source_revision_config: { repo_ref: 'main', graph_config_path: 'langgraph.json' },
      install_command: null,
      build_command: 'sleep 1000',
    },
  } as unknown as DeployTask
  const step = { task, signal: new AbortController().signal, log: () => () => {} }
  await t.rejects(
    driver.build(step, async () => {}),
    { name: 'Fault', message: /^build: its stages and their retries did not end within/ },
  )
  t.same(readdirSync(join(folder, 'deploy', 'work')), [], 'its files are removed')
})

t.test('processes that the builds of an earlier worker have left are killed', async t => {
  const folder = folderOf(t)
  const start = (mark: string) =>
    spawn('sleep', ['1000'], { env: { PATH: process.env.PATH, [MARK]: mark }, detached: true, stdio: 'ignore' })
  const [left, other] = [start(`${markOf(folder)}r1.7`), start('of-another-folder.r1.7')]
  t.teardown(() => other.kill('SIGKILL'))
  const ended = once(left, 'exit')
  await openDriver(folder)
  t.same(await ended, [null, 'SIGKILL'])
  t.equal(other.exitCode ?? other.signalCode, null, 'but not those of another folder')
})

t.test('the deployer names the revisions of its tasks', async t => {
  const held: string[][] = []
  const waiting = [taskOf('r1'), taskOf('r2')]
  let finish = () => {}
  const finished = new Promise<void>(done => (finish = done))
  let reconciled = () => {}
  const once = new Promise<void>(done => (reconciled = done))
  const client = {
    claim: async () => ({ task: waiting.shift() ?? null }),
    renew: async () => ({ interrupt: false }),
    advance: async () => {},
    active: async () => [],
  } as unknown as TaskClient
  const driver = {
    sources: ['github'],
    problems: () => [],
    has: async () => true,
    build: async () => ({ artefact: 'a' }),
    async deploy() {
      await finished
      return { graphs: [], image_version: null }
    },
    async reconcile(_: unknown, revisions: ReadonlySet<string>) {
      held.push([...revisions].sort())
      reconciled()
    },
    undo: async () => {},
    stop: async () => {},
  } as unknown as Driver
  const figures = openFigures()
  const deployer = openDeployer({ client, driver, logOf, log, figures })
  await once
  t.same(held[0], ['r1', 'r2'])
  t.equal(await figureOf({ figures }, 'weft_deploy_tasks', { kind: 'deploy' }), held[0]!.length)
  finish()
  deployer.quiet()
  await deployer.stop(100)
})

t.test('an unexpected error reports its reason and its request', async t => {
  const changes: Partial<DeployAdvance>[] = []
  const waiting = [taskOf('r1', { stage: 'AWAITING_BUILD' })]
  let failed = () => {}
  const ended = new Promise<void>(done => (failed = done))
  const client = {
    claim: async () => ({ task: waiting.shift() ?? null }),
    renew: async () => ({ interrupt: false }),
    async advance(_: unknown, change: DeployAdvance) {
      changes.push(change)
      if (change.status === 'DEPLOY_FAILED') failed()
    },
    active: async () => [],
  } as unknown as TaskClient
  const driver = {
    sources: ['github'],
    problems: () => [],
    build: async () => ({ artefact: 'a' }),
    deploy: async () => {
      throw new Error('ENOSPC: no space left on device, write')
    },
    reconcile: async () => {},
    undo: async () => {},
    stop: async () => {},
  } as unknown as Driver
  const figures = openFigures()
  const deployer = openDeployer({ client, driver, logOf, log, figures })
  await ended
  t.match(changes.at(-1)!.message, /^deploy: unexpected error .*no space left on device.*\(request [0-9a-f-]{36};/)
  deployer.quiet()
  await deployer.stop(100)
  const labels = { kind: 'deploy', outcome: 'DEPLOY_FAILED' }
  t.equal(await figureOf({ figures }, 'weft_deploy_tasks_total', labels), 1)
  t.equal(await figureOf({ figures }, 'weft_deploy_task_seconds', { kind: 'deploy' }), 1)
  t.equal(await figureOf({ figures }, 'weft_deploy_tasks'), 0, 'none is executed')
})

t.test('concurrent writes of one record file', async t => {
  const folder = folderOf(t)
  writeFileSync(join(folder, `${ID}.json.left.new`), 'a draft that a crash has left')
  const records = await openRecords(folder)
  const ids = Array.from({ length: 30 }, (_, i) => `r${i}`)
  await Promise.all(
    ids.flatMap(id => [
      records.add(ID, { revision_id: id, pool: id, artefact: 'a' }),
      ...(id === 'r29' ? [] : [records.markRetired(ID, id)]),
    ]),
  )
  t.same(await (await openRecords(folder)).listUnretired(), [
    { deployment_id: ID, revision_id: 'r29', pool: 'r29', artefact: 'a' },
  ])
  t.same(readdirSync(folder), [`${ID}.json`], 'no draft is left')
  const path = join(folder, 'other')
  await Promise.all(ids.map(id => writeDurably(path, id)))
  t.match(readFileSync(path, 'utf8'), /^r\d+$/)
})

t.test('a task that comes again after its lease has expired begins when its first execution has ended', async t => {
  const steps: string[] = []
  const tasks = [taskOf('r', { artefact: 'a' }), taskOf('r', { artefact: 'a', epoch: 2 })]
  let ended = () => {}
  const done = new Promise<void>(end => (ended = end))
  const client = {
    claim: async () => ({ task: tasks.shift() ?? null }),
    active: async () => [],
    renew: async () => ({ interrupt: false }),
    async advance({ epoch }: DeployTask, { status }: DeployAdvance) {
      steps.push(`${epoch} ${status}`)
      if (status === 'DEPLOYED') ended()
    },
  } as unknown as TaskClient
  const driver = {
    sources: ['github'],
    problems: () => [],
    has: async () => true,
    async deploy({ task, signal }: { task: DeployTask; signal: AbortSignal }) {
      steps.push(`${task.epoch} deploy`)
      if (task.epoch === 1) {
        if (!signal.aborted) await new Promise(stopped => signal.addEventListener('abort', stopped))
        throw signal.reason
      }
      return { graphs: [], image_version: null }
    },
    async undo({ epoch }: DeployTask) {
      await turn()
      steps.push(`${epoch} undo`)
    },
    reconcile: async () => {},
    stop: async () => {},
  } as unknown as Driver
  const deployer = openDeployer({ client, driver, logOf, log, figures: openFigures() })
  await done
  deployer.quiet()
  await deployer.stop(0)
  t.same(steps, ['1 deploy', '1 undo', '2 deploy', '2 DEPLOYED'])
})

for (const answered of ['never', 'late'] as const)
  t.test(`a task whose renewals are answered ${answered} stops before another worker can claim it`, async t => {
    const LEASE_MS = 600
    const steps: string[] = []
    const tasks = [taskOf('r', { artefact: 'a' })]
    let ended = () => {}
    const done = new Promise<void>(end => (ended = end))
    /** The time that the store counts: from when the call arrives there. */
    const lease = (ms: number) => setTimeout(() => steps.push('expired'), LEASE_MS + ms)
    let expiry: NodeJS.Timeout | undefined
    const client = {
      async claim() {
        const task = tasks.shift() ?? null
        if (task === null) return { task }
        expiry = lease(30)
        await sleep(LEASE_MS / 4)
        return { task }
      },
      active: async () => [],
      async renew() {
        if (answered === 'never' || steps.includes('renewed')) return new Promise(() => {})
        clearTimeout(expiry)
        expiry = lease(30)
        await sleep(LEASE_MS / 4)
        steps.push('renewed')
        return { interrupt: false }
      },
    } as unknown as TaskClient
    const driver = {
      sources: ['github'],
      problems: () => [],
      has: async () => true,
      async deploy({ signal }: { signal: AbortSignal }) {
        if (!signal.aborted) await new Promise(stopped => signal.addEventListener('abort', stopped))
        steps.push(signal.reason)
        throw signal.reason
      },
      undo: async () => ended(),
      reconcile: async () => {},
      stop: async () => {},
    } as unknown as Driver
    const figures = openFigures()
    const deployer = openDeployer({ client, driver, logOf, log, figures, lease_ms: LEASE_MS })
    await done
    deployer.quiet()
    await deployer.stop(0)
    clearTimeout(expiry)
    t.same(steps, answered === 'never' ? ['lost'] : ['renewed', 'lost'])
  })
