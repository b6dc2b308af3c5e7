/** A client of the control plane, and a scripted deploy worker. */
import { type Caller, openCaller } from '../../bus/call.js'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import type {
  ActiveDeployments,
  Claimed,
  DeployAdvance,
  DeployClaim,
  DeployLog,
  DeployTask,
  Renewed,
} from '../../schemas/deploy-calls.js'
import type { Deployment, DeploymentCreate, RevisionStatus } from '../../schemas/deployments.js'
import { DEPLOY_TASKS, rpc } from '../../schemas/subjects.js'

export const KEY = 'the-control-key-of-tests'

export interface Answered<T> {
  status: number
  headers: Headers
  text: string
  body: T
}

export type Control = <T = never>(
  method: string,
  path: string,
  body?: unknown,
  headers?: { [name: string]: string },
) => Promise<Answered<T>>

/** Calls with the key; a body is sent as JSON, a text unchanged. */
export const openControl =
  (url: string, key = KEY): Control =>
  async <T>(method: string, path: string, body?: unknown, headers: { [name: string]: string } = {}) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { 'x-api-key': key, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, text, body: (text === '' ? null : JSON.parse(text)) as T }
  }

/** A valid deployment; `more` overrides its fields. */
export const github = (name: string, more: Partial<DeploymentCreate> = {}): DeploymentCreate => ({
  name,
  source: 'github',
  source_config: { repo_url: 'https://example.com/agents/one' },
  source_revision_config: { repo_ref: 'main', graph_config_path: 'langgraph.json' },
  secrets: [],
  ...more,
})

export const image = (name: string, more: Partial<DeploymentCreate> = {}): DeploymentCreate => ({
  name,
  source: 'external_docker',
  source_config: { resource_spec: {} },
  source_revision_config: { image_uri: 'registry.example.com/agents/one:1.2.3' },
  secrets: [],
  ...more,
})

export interface Deployer {
  claim(sources?: DeployClaim['sources']): Promise<DeployTask | null>
  renew(task: DeployTask): Promise<Renewed>
  advance(task: DeployTask, status: DeployAdvance['status'], more?: Partial<DeployAdvance>): Promise<void>
  log(task: DeployTask, stage: DeployLog['stage'], lines: DeployLog['lines']): Promise<void>
  active(): Promise<ActiveDeployments['deployments']>
  ask<T>(verb: string, body: object): Promise<T>
  /** `<kind> <deployment>` of every received wake-up. */
  woken: string[]
  /** Claims and brings the revision to the status, through the statuses between. */
  bring(to: RevisionStatus, more?: Partial<DeployAdvance>): Promise<DeployTask>
  close(): Promise<void>
}

const PATHS: { readonly [to: string]: RevisionStatus[] } = {
  BUILD_FAILED: ['BUILDING', 'BUILD_FAILED'],
  DEPLOYED: ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'],
  DEPLOY_FAILED: ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOY_FAILED'],
}

/** A scripted deploy worker at this broker: it makes the real calls and builds nothing. With another `role` it has the rights of that role. */
export async function openDeployer(url: string, role: Role = 'deployer'): Promise<Deployer> {
  const link = await openLink({ url, role, log: openLog('test', 'silent') })
  const caller: Caller = openCaller(link)
  const ask = async <T>(verb: string, body: object): Promise<T> => {
    const bytes = Buffer.from(JSON.stringify(body))
    const answer = await caller.ask(rpc('deployments', verb), { request_id: 'test' }, bytes)
    return JSON.parse(Buffer.from(answer.body).toString()) as T
  }
  const held = ({ deployment_id, revision_id, epoch }: DeployTask) => ({ deployment_id, revision_id, epoch })
  const woken: string[] = []
  if (role === 'deployer')
    link.subscribe(DEPLOY_TASKS, ({ subject }) => void woken.push(subject.split('.').slice(2).join(' ')))
  await link.nc.flush()
  const deployer: Deployer = {
    ask,
    woken,
    claim: async sources =>
      (await ask<Claimed>('claim', { worker: 'test', ...(sources === undefined ? {} : { sources }) })).task,
    renew: task => ask('renew', held(task)),
    advance: (task, status, more = {}) => ask('advance', { ...held(task), status, ...more }),
    log: ({ deployment_id, revision_id }, stage, lines) => ask('log', { deployment_id, revision_id, stage, lines }),
    active: async () => (await ask<ActiveDeployments>('active', {})).deployments,
    async bring(to, more = {}) {
      const task = await deployer.claim()
      if (task === null) throw new Error('there is no task')
      const path = (PATHS[to] ?? [to]).slice(task.stage === 'AWAITING_DEPLOY' ? 2 : 0)
      for (const status of path) await deployer.advance(task, status, status === to ? more : {})
      return task
    },
    async close() {
      caller.close()
      await link.close()
    },
  }
  return deployer
}

/** Without the field that changes from one read to the next. */
export const still = ({ updated_at: _, ...rest }: Deployment): Omit<Deployment, 'updated_at'> => rest
