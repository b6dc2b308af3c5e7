/**
 * Every subject of the cluster. Nothing else spells one; arguments are branded tokens (schemas/ids.ts).
 */
import { type AuthId, type DeploymentId, type Member, type Pool, type RunId, type ThreadId, token } from './ids.js'

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
/**
 * A graph worker as the broker knows it. The broker lets the user of a pool write only its own names into a subject, so the
 * receiver believes them; a call of a shared user (docs/operations.md) may name any.
 */
export interface Sender {
  app: string
  pool: string
}

/** Calls of graph workers to resource workers; one queue group per noun. */
type PoolNoun = 'assistants' | 'checkpoints' | 'items' | 'runs'
export const poolCall = ({ app, pool }: Sender, noun: PoolNoun, verb: string): string =>
  `pool.${token('app', app)}.${token('pool', pool)}.${noun}.${verb}`
/** The calls of a noun by all graph workers, for `serve`. */
export const poolCalls = (noun: PoolNoun): string => `pool.*.*.${noun}`
/** The sender of such a call; null for any other subject. */
export function senderOf(subject: string): Sender | null {
  const [kind, app, pool] = subject.split('.')
  return kind === 'pool' && app && pool ? { app, pool } : null
}
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
/** Recorded parts of a run, in a stream of their own. */
export const spans = (thread: ThreadId, run: RunId): string => `spans.${thread}.${run}`
/** The subjects of all runs of a thread. */
export const spansOfThread = (thread: ThreadId): string => `spans.${thread}.*`
/** Live events of a run: published directly, or by the republish of the stored stream. */
export const live = (run: RunId): string => `live.${run}`
/** The terminal event of a run; only resource workers may publish it. */
export const end = (run: RunId): string => `end.${run}`
/** Signals to the supervisor of the run, in the pool that executes it: cancel, replay from the ring. */
export const control = (pool: Pool, run: RunId): string => `ctl.${pool}.${run}`
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

/** A replica of the revision that this pool serves is ready. */
export const beat = (pool: Pool | '*'): string => `beat.${pool}`

/** The two ends of byte streams (bus/tunnel.ts). */
export type TunnelRole = 'edge' | 'graphs' | 'resources'
/** Opens a stream to a process that serves the pool. */
export const tunnelToPool = (pool: Pool): string => `tunnel.graphs.open.${pool}`
/** Opens a stream to any edge, for this application: a graph worker, or a resource worker for the built-in one. */
export const tunnelToEdge = (from: 'graphs' | 'resources', app: DeploymentId | '*'): string =>
  `tunnel.edge.open.${from}.${app}`
/** One end of a stream. `id` cannot be guessed: who knows it may send there. `pool`: that of a graph worker. */
export const tunnelAddress = (role: TunnelRole, id: string, pool?: Pool): string =>
  `tunnel.${role}.at.${pool === undefined ? '' : `${pool}.`}${id}`

/** The prefix of the inboxes of a role; graph workers of a pool have their own. */
export const inboxPrefix = (role: 'edge' | 'resources' | 'graphs' | 'deployer', pool?: string): string =>
  `_INBOX_${role}${pool === undefined ? '' : `.${pool}`}`

/**
 * The inbox for answers of graph workers of one pool, beside `inbox` for those of resource workers: a graph worker may not
 * write to any other, so an answer comes from the pool that was asked. `_INBOX_edge.x` → `_INBOX_edge.pool.<pool>.x`.
 */
export function inboxFor(pool: string, inbox: string): string {
  const at = inbox.indexOf('.')
  return `${inbox.slice(0, at)}.pool.${pool}${inbox.slice(at)}`
}
/** The pool of an inbox that `inboxFor` made. */
export const poolOfInbox = (inbox: string): string => inbox.split('.', 3)[2]!
/** All graph workers answer. Pools do not have this name. */
export const ANY_POOL = '$any'
/** Where a graph worker answers what all are asked: at the inbox for its own pool. Others (undefined) answer as they are asked. */
export const ownInbox = (reply: string, pool: string | undefined): string =>
  pool === undefined ? reply : reply.replace(`.pool.${ANY_POOL}.`, `.pool.${pool}.`)
/** The pool whose graph workers receive the subject; '' for other receivers. */
export function poolOfSubject(subject: string): string {
  const [kind, pool = '', third] = subject.split('.', 3)
  if (kind === 'host' || kind === 'slots' || kind === 'ctl') return pool
  const asksAll = kind === 'event' && (pool === 'metrics' || pool === 'logs') && third === 'asked'
  return asksAll ? ANY_POOL : ''
}

export const EVENTS_PER_BLOCK = 1024
export const blockOf = (id: number): number => Math.floor(id / EVENTS_PER_BLOCK)

/** Stored and removed at once, to check that the streams store. No pool and no run has these names. */
export const PROBE_QUEUE = 'queue.$probe'
export const PROBE_CHUNK = 'chunk.$probe.0'

export const RUNS_STREAM = 'RUNS'
export const EVENTS_STREAM = 'EVENTS'
export const SPANS_STREAM = 'SPANS'
export const consumerOf = (pool: Pool): string => `pool_${pool}`
/** State of a consumer in JetStream, for graph workers: the API of their own account would answer that it has none. */
export const queueInfo = (consumer: string): string => `queue_info.${consumer}`
/** The pool of a consumer; null for a consumer of another kind. */
export const poolOfConsumer = (name: string): string | null => (name.startsWith('pool_') ? name.slice(5) : null)

/** Event ids of an attempt start at (attempt − 1) · 10⁹ (decision 006). */
const IDS_PER_ATTEMPT = 1_000_000_000
export const firstIdOf = (attempt: number): number => (attempt - 1) * IDS_PER_ATTEMPT
export const attemptOf = (id: number): number => Math.floor(id / IDS_PER_ATTEMPT) + 1
