/** The two state machines as tables (docs/spec/control-plane.md#revision-status). Pure. */
import type { DeploymentStatus, RevisionStatus, Source } from '../../../schemas/deployments.js'

export type DeploymentEvent = 'provisioned' | 'not provisioned' | 'idle' | 'work' | 'delete' | 'lost' | 'found'

type To<Status extends string> = { [from in Status]?: Status }

/** docs/spec/control-plane.md#deployment-status. Other pairs change nothing. */
const DEPLOYMENT: { [event in DeploymentEvent]: To<DeploymentStatus> } = {
  provisioned: { AWAITING_DATABASE: 'READY' },
  'not provisioned': { AWAITING_DATABASE: 'UNKNOWN' },
  idle: { READY: 'UNUSED' },
  work: { UNUSED: 'READY' },
  delete: {
    READY: 'AWAITING_DELETE',
    UNUSED: 'AWAITING_DELETE',
    AWAITING_DATABASE: 'AWAITING_DELETE',
    UNKNOWN: 'AWAITING_DELETE',
  },
  lost: { AWAITING_DATABASE: 'UNKNOWN', READY: 'UNKNOWN', UNUSED: 'UNKNOWN' },
  found: { UNKNOWN: 'READY' },
}

/** The status after the event. */
export const deploymentAfter = (status: DeploymentStatus, event: DeploymentEvent): DeploymentStatus =>
  DEPLOYMENT[event][status] ?? status

const ENDS = ['INTERRUPTED', 'UNKNOWN'] as const satisfies RevisionStatus[]

/** docs/spec/control-plane.md#revision-status, T2 to T17. A status without a row is terminal. */
export const REVISION: { readonly [from in RevisionStatus]?: readonly RevisionStatus[] } = {
  CREATING: ['CREATE_FAILED', 'QUEUED', 'AWAITING_BUILD', 'AWAITING_DEPLOY', ...ENDS],
  QUEUED: ['AWAITING_BUILD', 'AWAITING_DEPLOY', 'SKIPPED', ...ENDS],
  AWAITING_BUILD: ['BUILDING', 'BUILD_FAILED', ...ENDS],
  BUILDING: ['AWAITING_DEPLOY', 'BUILD_FAILED', ...ENDS],
  AWAITING_DEPLOY: ['DEPLOYING', 'DEPLOY_FAILED', ...ENDS],
  DEPLOYING: ['DEPLOYED', 'DEPLOY_FAILED', ...ENDS],
  UNKNOWN: ['DEPLOYED', 'DEPLOY_FAILED'],
}

export const mayBecome = (from: RevisionStatus, to: RevisionStatus): boolean => REVISION[from]?.includes(to) ?? false

/** True for a status that does not change without a new request. */
export const isOver = (status: RevisionStatus): boolean => REVISION[status] === undefined || status === 'UNKNOWN'

/** First status of a rollout (T4, T5). */
export const firstStage = (source: Source, artefact: string | null): RevisionStatus =>
  source !== 'external_docker' && artefact === null ? 'AWAITING_BUILD' : 'AWAITING_DEPLOY'

/** How long a revision waits for a deploy worker, and its status after that (T8, T12). */
export const MAX_WAIT: { readonly [from in RevisionStatus]?: { ms: number; to: RevisionStatus } } = {
  AWAITING_BUILD: { ms: 30 * 60_000, to: 'BUILD_FAILED' },
  AWAITING_DEPLOY: { ms: 15 * 60_000, to: 'DEPLOY_FAILED' },
}
