/**
 * Every subject of the cluster. Nothing else spells one; arguments are branded tokens (schemas/ids.ts).
 */
import type { AuthId, DeploymentId, Member, Pool, RunId, ThreadId } from './ids.js'

type RpcNoun =
  | 'assistants'
  | 'threads'
  | 'runs'
  | 'crons'
  | 'items'
  | 'checkpoints'
  | 'system'
  | 'deployments'
  | 'revisions'
  | 'providers'
  | 'oauth'
  | 'control'
  | 'keys'

/** Request and reply with a resource worker; one queue group per noun. */
export const rpc = (noun: RpcNoun, verb: string): string => `rpc.${noun}.${verb}`
/** All workers that serve a call, instead of one of its queue group. */
export const all = (call: string): string => `${call}.all`
/** One worker that serves a call. */
export const one = (call: string, member: Member): string => `${call}.${member}`
/** Wake-ups of one pool, in the work-queue stream. */
export const queue = (pool: Pool): string => `queue.${pool}`
/** How many runs may be handed to a graph worker of this pool? All of them answer. */
export const slots = (pool: Pool): string => `slots.${pool}`
/** Stored events of a resumable run; `block` = floor(first id / EVENTS_PER_BLOCK). */
export const chunk = (run: RunId, block: number): string => `chunk.${run}.${block}`
/** All stored events of a run, over its blocks and attempts. */
export const chunks = (run: RunId): string => `chunk.${run}.*`
/** Live events of a run: published directly, or by the republish of the stored stream. */
export const live = (run: RunId): string => `live.${run}`
/** The terminal event of a run; only resource workers may publish it. */
export const end = (run: RunId): string => `end.${run}`
/** Signals to the supervisor of the run: cancel, replay from the ring. */
export const control = (run: RunId): string => `ctl.run.${run}`
/** Notifications between workers; a lost one costs time only. */
export const event = (noun: string, what: string): string => `event.${noun}.${what}`
/** News of the runs of a thread; not stored: the rows are the truth. */
export const threadNews = (thread: ThreadId): string => `event.threads.${thread}`
/** An OAuth flow has ended; no body: the row is the truth. */
export const authEnded = (auth: AuthId): string => `event.oauth.${auth}`
/** A deployment has a task for deploy workers: ids only, the rows are the truth. */
export const deployTask = (kind: 'deploy' | 'delete' | 'interrupt', deployment: DeploymentId): string =>
  `deploy.task.${kind}.${deployment}`
/** All of them, for a deploy worker. */
export const DEPLOY_TASKS = 'deploy.task.*.*'
/** Questions that need graph code (state with subgraphs); one queue group per pool. */
export const host = (pool: Pool, verb: string): string => `host.${pool}.${verb}`

/** The two ends of byte streams (bus/tunnel.ts). */
export type TunnelRole = 'edge' | 'graphs' | 'resources'
/** Opens a stream to a process that serves the pool, or to any edge. */
export const tunnelOpen = (role: TunnelRole, pool?: Pool): string =>
  `tunnel.${role}.open${pool === undefined ? '' : `.${pool}`}`
/** One end of a stream: `id` of the process `member`. */
export const tunnelAddress = (role: TunnelRole, member: Member, id: string): string =>
  `tunnel.${role}.at.${member}.${id}`

export const EVENTS_PER_BLOCK = 1024
export const blockOf = (id: number): number => Math.floor(id / EVENTS_PER_BLOCK)

/** Stored and removed at once, to check that the streams store. No pool and no run has these names. */
export const PROBE_QUEUE = 'queue.$probe'
export const PROBE_CHUNK = 'chunk.$probe.0'

export const RUNS_STREAM = 'RUNS'
export const EVENTS_STREAM = 'EVENTS'
export const consumerOf = (pool: Pool): string => `pool_${pool}`
/** The pool of a consumer; null for a consumer of another kind. */
export const poolOfConsumer = (name: string): string | null => (name.startsWith('pool_') ? name.slice(5) : null)

/** Event ids of an attempt start at (attempt − 1) · 10⁹ (design: classic event id). */
const IDS_PER_ATTEMPT = 1_000_000_000
export const firstIdOf = (attempt: number): number => (attempt - 1) * IDS_PER_ATTEMPT
export const attemptOf = (id: number): number => Math.floor(id / IDS_PER_ATTEMPT) + 1
