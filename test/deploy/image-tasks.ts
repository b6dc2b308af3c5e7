/** Tasks, active revisions and beats for tests of the drivers for images, without a control plane. */
import type { Msg } from 'nats'
import type { ActiveDeployment, DeployTask } from '../../schemas/deploy-calls.js'
import type { ResourceSpec } from '../../schemas/deployments.js'
import type { Driver } from '../../workers/deploy/driver.js'
import { type Beats, openBeats } from '../../workers/deploy/images/beats.js'

export const ID = '0198f2a5-0000-7000-8000-000000000000'
export const SECRET = 'a secret of the deployment'
export const NOBODY = new Set<string>()

/** The deploy task of revision `n`, whose image is `registry.test/team/app:<n>`. */
export const taskOf = (n: number, spec: ResourceSpec = {}, more: Partial<DeployTask> = {}): DeployTask =>
  ({
    deployment_id: ID,
    slug: 'support-1a2b3c4d',
    revision_id: `r${n}`,
    epoch: n,
    kind: 'deploy',
    stage: 'AWAITING_DEPLOY',
    seq: n,
    generation: 1,
    pool: `rev_r${n}`,
    deployment: {
      name: 'support',
      source: 'external_docker',
      source_config: { resource_spec: spec, listener_config: null },
    },
    revision: { source_revision_config: { image_uri: `registry.test/team/app:${n}` } },
    env: { TOKEN: SECRET },
    pool_user: { user: 'app.pool', password: 'a password' },
    secret_references: [],
    artefact: null,
    ...more,
  }) as unknown as DeployTask

/** The revision of the task after its cutover. */
export const activeOf = (task: DeployTask, artefact: string, more: Partial<ActiveDeployment> = {}): ActiveDeployment =>
  ({
    ...task,
    name: 'support',
    source: 'external_docker',
    deploying_revision_id: null,
    artefact,
    image_uri: null,
    resource_spec: task.deployment.source_config.resource_spec,
    namespace: null,
    graphs: [],
    ...more,
  }) as unknown as ActiveDeployment

export const stepOf = (task: DeployTask, lines: string[] = [], signal = new AbortController().signal) => ({
  task,
  signal,
  log: () => (_: string, line: string) => void lines.push(line),
})

export async function rollOut(driver: Driver, task: DeployTask, lines: string[] = []) {
  const { artefact } = await driver.build(stepOf(task, lines), async () => {})
  return { artefact, ...(await driver.deploy(stepOf(task, lines), artefact)) }
}

export async function until(what: string, check: () => boolean): Promise<void> {
  for (let n = 0; !check(); n++) {
    if (n > 2_000) throw new Error(`still not: ${what}`)
    await new Promise(done => setTimeout(done, 5))
  }
}

/** Beats without a broker. `beat`: a replica with this environment says that it is ready. */
export function openTestBeats(): { beats: Beats; beat(replica: { env: { [name: string]: string } }): void } {
  let deliver: (message: Msg) => void = () => {}
  const link = {
    subscribe: (_: string, onMessage: typeof deliver) => {
      deliver = onMessage
      return { unsubscribe() {} }
    },
  }
  return {
    beats: openBeats(link as never),
    beat({ env }) {
      const body = { revision_id: env.WEFT_REVISION, replica: env.WEFT_REPLICA, graphs: [{ graph_id: 'agent' }] }
      deliver({ data: Buffer.from(JSON.stringify(body)), subject: `beat.${env.WEFT_POOL}` } as unknown as Msg)
    },
  }
}
