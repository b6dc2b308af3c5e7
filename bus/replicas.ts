/**
 * The streams in a cluster of NATS servers: how many copies, on which servers, and what the servers say meanwhile. While
 * they elect a leader, they answer "no responders". That answer is not a refusal.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ErrorCode, type StreamConfig } from 'nats'
import type { Config } from '../schemas/config.js'
import type { Link } from './connect.js'

type Replication = Pick<Config, 'nats_replicas' | 'nats_cluster' | 'nats_tags'>

/** Error codes of JetStream (https://github.com/nats-io/nats-server/blob/main/server/errors.json). */
const NOT_CLUSTERED = 10074
const NO_PEERS = 10005
/** No leader, no quorum, a stream whose servers are away, one that is being moved or gets another number of copies. */
const NOT_AVAILABLE = [10008, 10009, 10118, 10124, 10226]
const NOT_FOUND = 404

/** A cluster elects within 10 s; servers that start together find each other meanwhile. */
const ELECTION_MS = 30_000
/** Servers that are about to join. */
const JOIN_MS = 8_000
const PAUSE_MS = 250

/** The fields of a stream that say where its copies are. An update keeps what is absent, so the placement is there. */
export function replicationOf(config: Replication): Pick<Partial<StreamConfig>, 'num_replicas' | 'placement'> {
  const { nats_replicas, nats_cluster, nats_tags } = config
  const tags = nats_tags
    .split(',')
    .map(tag => tag.trim())
    .filter(Boolean)
  const placement = { ...(nats_cluster ? { cluster: nats_cluster } : {}), ...(tags.length > 0 ? { tags } : {}) }
  return {
    num_replicas: nats_replicas,
    placement: Object.keys(placement).length > 0 ? (placement as StreamConfig['placement']) : undefined,
  }
}

interface ApiError {
  code: number
  err_code: number
  description: string
}

const apiErrorOf = (error: unknown): Partial<ApiError> => (error as { api_error?: ApiError }).api_error ?? {}

export const isNotFound = (error: unknown): boolean => apiErrorOf(error).code === NOT_FOUND

const isElecting = (error: unknown): boolean =>
  NOT_AVAILABLE.includes(apiErrorOf(error).err_code ?? 0) || (error as { code?: string }).code === ErrorCode.Timeout

/** Repeats `work` while the servers elect. Throws an Error with one sentence when they cannot hold that many copies. */
export async function onceElected<T>(link: Link, config: Replication, work: () => Promise<T>): Promise<T> {
  const since = performance.now()
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const { err_code, description } = apiErrorOf(error)
      const waited = performance.now() - since
      const again = isElecting(error) ? waited < ELECTION_MS : err_code === NO_PEERS && waited < JOIN_MS
      if (!again) throw err_code === NOT_CLUSTERED || err_code === NO_PEERS ? refusal(link, config, description) : error
      await sleep(PAUSE_MS)
    }
  }
}

function refusal(link: Link, { nats_replicas, nats_cluster, nats_tags }: Replication, description = ''): Error {
  const where = [nats_cluster && `in the cluster ${nats_cluster}`, nats_tags && `with the tags ${nats_tags}`]
  const servers = [`${nats_replicas} NATS servers`, ...where.filter(Boolean)].join(' ')
  return new Error(
    `WEFT_NATS_REPLICAS=${nats_replicas} needs ${servers} that form a JetStream cluster, which ${link.nc.getServer()} does not have (${description}): start them, or set it to 1`,
  )
}
