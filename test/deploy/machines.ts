/** Machines for the kill matrix: what deploy workers start there outlives their drivers or not, and can be counted. */
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Msg } from 'nats'
import { openFigures } from '../../bus/figures.js'
import { openLog } from '../../bus/log.js'
import { readConfig } from '../../schemas/config.js'
import { type ActiveDeployment, type DeployTask, poolOf } from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import { LABEL } from '../../workers/deploy/docker/container.js'
import { openDockerDriver } from '../../workers/deploy/docker/driver.js'
import { openEngine } from '../../workers/deploy/docker/engine.js'
import type { Driver } from '../../workers/deploy/driver.js'
import { openBeats } from '../../workers/deploy/images/beats.js'
import { openRevisionLog } from '../../workers/deploy/log.js'
import { rangeOf, within } from '../../workers/deploy/scaling.js'
import type { TaskClient } from '../../workers/deploy/task-client.js'
import { type FakeContainer, type FakeImage, startEngine } from './docker/engine.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

export interface Instance {
  deployment_id: string
  revision_id: string
  replicas: number
}

export interface Machine {
  source: Source
  /**
   * The driver of a deploy worker that starts on this machine. `step` is called before a change of the machine, where
   * the machine can tell; it rejects when the worker is dead.
   */
  open(client: TaskClient, step: () => Promise<void>): Promise<Driver>
  /** The deploy worker was killed: nothing that it still tries has an effect. */
  kill(): Promise<void>
  /** The revisions that run. */
  instances(): Instance[]
  close(): Promise<void>
}

/** A driver that builds and starts nothing; its instances end with the deploy worker, as processes do, or outlive it. */
export async function fakeMachine({ outlives }: { outlives: boolean }): Promise<Machine> {
  const artefacts = new Set<string>()
  const instances = new Map<string, Instance & { generation: number }>()
  /** Revisions whose pools exist, and their deployments. */
  const pools = new Map<string, string>()
  function start({ deployment_id, revision_id, generation }: DeployTask | ActiveDeployment, replicas: number): void {
    pools.set(revision_id, deployment_id)
    instances.set(revision_id, { deployment_id, revision_id, generation, replicas })
  }
  const open = async (client: TaskClient): Promise<Driver> => {
    const stop = async (isMeant: (revision_id: string, deployment_id: string) => boolean) => {
      for (const [revision_id, deployment_id] of pools)
        if (isMeant(revision_id, deployment_id)) {
          instances.delete(revision_id)
          await client.retire(poolOf(revision_id))
          pools.delete(revision_id)
        }
    }
    return {
      sources: ['github'],
      problems: () => [],
      has: async artefact => artefacts.has(artefact),
      async build({ task }, onCommit) {
        await onCommit('c'.repeat(40))
        const artefact = `artefact of ${task.revision.source_revision_config.repo_ref}`
        artefacts.add(artefact)
        return { artefact }
      },
      async deploy({ task }) {
        start(task, Math.max(1, rangeOf(task.deployment.source_config.resource_spec).min))
        return { graphs: [{ graph_id: 'agent' }], image_version: null }
      },
      undo: ({ revision_id }) => stop(one => one === revision_id),
      async reconcile(active, held) {
        const wanted = new Set([...held, ...active.flatMap(one => [one.revision_id, one.deploying_revision_id])])
        await stop(one => !wanted.has(one))
        for (const one of active) {
          const { replicas = 0, generation = -1 } = instances.get(one.revision_id) ?? {}
          if (generation !== one.generation) start(one, within(rangeOf(one.resource_spec), replicas))
        }
      },
      destroy: ({ deployment_id }) => stop((_, of) => of === deployment_id),
      scaling: {
        replicas: revision_id => instances.get(revision_id)?.replicas ?? null,
        async scale(revision_id, replicas) {
          const one = instances.get(revision_id)
          if (one !== undefined) one.replicas = replicas
        },
      },
      async stop() {
        if (!outlives) instances.clear()
      },
    }
  }
  return {
    source: 'github',
    open,
    async kill() {
      if (!outlives) instances.clear()
    },
    instances: () =>
      [...instances.values()].map(({ deployment_id, revision_id, replicas }) => ({
        deployment_id,
        revision_id,
        replicas,
      })),
    close: async () => {},
  }
}

/** Every worker has its own way to the engine, which is cut when it dies: a dead one may still try. */
interface Cable {
  host: string
  cut(): Promise<void>
}

const BEAT_MS = 10
/** Waiting and pulling change no container. */
const CHANGE = /^(DELETE|POST (?!.*\/(wait|images)))/

/** The docker driver at an engine of the tests. */
export async function dockerMachine(): Promise<Machine> {
  const folder = mkdtempSync(join(tmpdir(), 'weft-cables-'))
  let receivers: ((message: Msg) => void)[] = []
  const link = {
    subscribe(_: string, onMessage: (message: Msg) => void) {
      receivers.push(onMessage)
      return { unsubscribe: () => void (receivers = receivers.filter(one => one !== onMessage)) }
    },
  }
  const beat = ({ env }: FakeContainer) => {
    const body = { revision_id: env.WEFT_REVISION, replica: env.WEFT_REPLICA, graphs: [{ graph_id: 'agent' }] }
    for (const deliver of receivers)
      deliver({ data: Buffer.from(JSON.stringify(body)), subject: `beat.${env.WEFT_POOL}` } as unknown as Msg)
  }
  const image: FakeImage = {
    program(container) {
      const timer = setInterval(beat, BEAT_MS, container)
      return signal => {
        clearInterval(timer)
        container.exit(signal === 'SIGKILL' ? 137 : 0)
      }
    },
  }
  const engine = await startEngine(Object.fromEntries(['main', 'next', 'later'].map(tag => [imageOf(tag), image])))
  const cables: Cable[] = []
  const closers: (() => void)[] = []

  async function lay(step: () => Promise<void>): Promise<Cable> {
    const sockets = new Set<Socket>()
    const server = createServer(near => {
      const far = connect(engine.host.slice('unix://'.length))
      let sent = Promise.resolve()
      near.on('data', chunk => {
        const isChange = CHANGE.test(chunk.toString('latin1', 0, 80))
        const send = async () => {
          if (isChange) await step()
          far.write(chunk)
        }
        sent = sent.then(send).catch(() => void near.destroy())
      })
      far.pipe(near)
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(one)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          sockets.delete(one)
          other.destroy()
        })
      }
    })
    const path = join(folder, `${cables.length}.sock`)
    await new Promise<void>(done => server.listen(path, done))
    const cable: Cable = {
      host: `unix://${path}`,
      async cut() {
        const closed = new Promise<void>(done => server.close(() => done()))
        for (const one of sockets) one.destroy()
        await closed
      },
    }
    cables.push(cable)
    return cable
  }

  return {
    source: 'external_docker',
    async open(client, step) {
      const settings = { deploy_stable_ms: 0, stop_ms: 50, drain_ms: 50, docker_host: (await lay(step)).host }
      const config = readConfig({}, settings)
      const beats = openBeats(link as never)
      const driver = openDockerDriver({
        engine: await openEngine(config),
        config,
        nats_url: 'nats://graphs:password@broker.test:4222',
        server: 'https://weft.test',
        beats,
        log,
        figures: openFigures(),
        logOf: ids => openRevisionLog(ids, async () => {}, log),
        env: client.env,
        retire: client.retire,
      })
      closers.push(() => {
        beats.close()
        void driver.stop(0)
      })
      return driver
    },
    kill: async () => cables.at(-1)!.cut(),
    instances() {
      const found = new Map<string, Instance>()
      for (const { labels, state } of engine.containers.values()) {
        if (state !== 'running') continue
        const revision_id = labels[LABEL.revision]!
        const one = found.get(revision_id) ?? { deployment_id: labels[LABEL.deployment]!, revision_id, replicas: 0 }
        one.replicas++
        found.set(revision_id, one)
      }
      return [...found.values()]
    },
    async close() {
      for (const close of closers) close()
      for (const cable of cables) await cable.cut()
      await engine.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Reference of an image with this tag. */
export const imageOf = (tag: string): string => `registry.test/team/app:${tag}`
