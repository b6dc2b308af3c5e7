/** The kubernetes driver at a cluster of the tests, as a machine of the kill matrix. */
import type { Msg } from 'nats'
import { openLog } from '../../../bus/log.js'
import { readConfig } from '../../../schemas/config.js'
import { openBeats } from '../../../workers/deploy/images/beats.js'
import { openCluster } from '../../../workers/deploy/kubernetes/cluster.js'
import { openKubernetesDriver } from '../../../workers/deploy/kubernetes/driver.js'
import { LABEL } from '../../../workers/deploy/kubernetes/render.js'
import { openRevisionLog } from '../../../workers/deploy/log.js'
import { type Instance, imageOf, type Machine } from '../machines.js'
import { type Access, startApiServer } from './api-server.js'
import type { FakePod, Program } from './nodes.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')
const BEAT_MS = 10

export async function kubernetesMachine(): Promise<Machine> {
  const receivers = new Set<(message: Msg) => void>()
  const link = {
    subscribe(_: string, onMessage: (message: Msg) => void) {
      receivers.add(onMessage)
      return { unsubscribe: () => void receivers.delete(onMessage) }
    },
  }
  const beat = ({ env }: FakePod) => {
    const body = { revision_id: env.WEFT_REVISION, replica: env.WEFT_REPLICA, graphs: [{ graph_id: 'agent' }] }
    for (const deliver of receivers)
      deliver({ data: Buffer.from(JSON.stringify(body)), subject: `beat.${env.WEFT_POOL}` } as unknown as Msg)
  }
  const program: Program = pod => {
    const timer = setInterval(beat, BEAT_MS, pod)
    setImmediate(() => pod.ready())
    return () => {
      clearInterval(timer)
      pod.exit(0)
    }
  }
  const cluster = await startApiServer(
    Object.fromEntries(['main', 'next', 'later'].map(tag => [imageOf(tag), program])),
  )
  const accesses: Access[] = []
  const closers: (() => void)[] = []
  return {
    source: 'external_docker',
    async open(client, step) {
      const access = cluster.access(step)
      accesses.push(access)
      const settings = { deploy_stable_ms: 0, stop_ms: 50, drain_ms: 50, kubeconfig: access.kubeconfig }
      const config = readConfig({}, settings)
      const beats = openBeats(link as never)
      const driver = openKubernetesDriver({
        cluster: await openCluster(config),
        config,
        nats_url: 'nats://graphs:password@broker.test:4222',
        server: 'https://weft.test',
        beats,
        log,
        logOf: ids => openRevisionLog(ids, async () => {}, log),
        env: client.env,
        retire: client.retire,
        look_ms: 10,
        pauses_ms: [10, 50],
      })
      closers.push(() => {
        beats.close()
        void driver.stop(0)
      })
      return driver
    },
    kill: async () => accesses.at(-1)!.cut(),
    instances() {
      const found = new Map<string, Instance>()
      for (const { labels } of cluster.nodes.running()) {
        const revision_id = labels[LABEL.revision]!
        const one = found.get(revision_id) ?? { deployment_id: labels[LABEL.deployment]!, revision_id, replicas: 0 }
        one.replicas++
        found.set(revision_id, one)
      }
      return [...found.values()]
    },
    async close() {
      for (const close of closers) close()
      await cluster.close()
    },
  }
}
