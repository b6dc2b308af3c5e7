/**
 * The rights of each role at the broker: it may publish and receive the subjects of its code and no others. A role that answers another
 * may publish to its inbox; `allow_responses` is not used (it allows one answer per request).
 */

import { type Pool, token } from '../schemas/ids.js'
import { consumerOf, inboxPrefix, queueInfo, RUNS_STREAM, type Sender } from '../schemas/subjects.js'
import type { Role } from './connect.js'

export interface Rights {
  publish: string[]
  /** Exceptions from `publish`. */
  never?: string[]
  subscribe: string[]
}

/** A call to any worker of its queue group, to all of them, or to one. */
const calls = (noun: string, ...verbs: string[]) =>
  verbs.flatMap(verb => [`rpc.${noun}.${verb}`, `rpc.${noun}.${verb}.*`])

/** Orders, and the secrets that come with them: for deploy workers alone. */
const DEPLOYER = calls('deployments', 'claim', 'renew', 'advance', 'log', 'active', 'env', 'source', 'source_part')

/** The questions of edges that the app host beside a graph worker answers. */
const APP_HOST = ['host.*.check', 'host.*.check.*']

/** Graph workers of one pool. `*` for all: a user that several pools share. */
function ofPool({ app, pool }: Sender): Rights {
  const consumer = pool === '*' ? '*' : consumerOf(token<'pool'>('pool', pool))
  const inbox = pool === '*' ? inboxPrefix('graphs') : inboxPrefix('graphs', pool)
  return {
    publish: [
      `pool.${app}.${pool}.>`,
      `_INBOX_resources.pool.${pool}.>`,
      `_INBOX_edge.pool.${pool}.>`,
      `tunnel.edge.open.graphs.${app}`,
      'tunnel.edge.at.>',
      'tunnel.resources.at.>',
      // Ids of runs are known to their pool only.
      'chunk.*.*',
      'live.*',
      'spans.*.*',
      `beat.${pool}`,
      // A replay that came during a claim is sent again.
      `ctl.${pool}.*`,
      `$JS.API.CONSUMER.MSG.NEXT.${RUNS_STREAM}.${consumer}`,
      queueInfo(consumer),
      `$JS.ACK.${RUNS_STREAM}.${pool === '*' ? '>' : `${consumer}.>`}`,
    ],
    subscribe: [
      `${inbox}.>`,
      `ctl.${pool}.*`,
      'event.resources.started',
      'event.metrics.asked',
      'event.logs.asked',
      `beat.${pool}`,
      `host.${pool}.>`,
      `slots.${pool}`,
      `tunnel.graphs.open.${pool}`,
      `tunnel.graphs.at.${pool}.>`,
    ],
  }
}

/** The accounts of the broker: users of roles have one, users of pools the other. */
export const ROLES_ACCOUNT = 'WEFT'
export const POOLS_ACCOUNT = 'POOLS'

/**
 * The subjects that pass between the two accounts. The rights of a pool say which names it may use. JetStream answers at the
 * subject that a request names, with its own rights: in the account of the streams a pool could let it publish anywhere, so
 * that one request deletes a stream. An answer to another account stays in that account.
 */
export const CROSSINGS = {
  fromPools: [
    'pool.>',
    '_INBOX_resources.pool.>',
    '_INBOX_edge.pool.>',
    'tunnel.edge.>',
    'tunnel.resources.at.>',
    'live.*',
    'beat.*',
  ],
  toPools: [
    '_INBOX_graphs.>',
    'ctl.*.*',
    'event.resources.started',
    'event.metrics.asked',
    'event.logs.asked',
    'host.*.>',
    'slots.*',
    'tunnel.graphs.>',
  ],
  /** Messages of pools to JetStream, which it answers once where they ask for an answer. */
  answeredOnce: ['chunk.*.*', 'spans.*.*', `$JS.ACK.${RUNS_STREAM}.>`],
  /** The same, under another name in the account of the pools. */
  renamed: [{ subject: `$JS.API.CONSUMER.INFO.${RUNS_STREAM}.*`, to: queueInfo('*') }],
  /** With any number of messages. */
  answeredOften: [`$JS.API.CONSUMER.MSG.NEXT.${RUNS_STREAM}.*`],
} as const

/**
 * A subject as a leaf node maps it: JetStream of the hub has this domain (docs/scaling.md#leaf-nodes-and-regions). Rights are checked
 * after the mapping.
 */
export const inDomain = (subject: string): string => subject.replace(/^\$JS\.API\./, '$JS.hub.API.')

/** The user of a pool. Throws a RangeError for names that cannot be part of a subject. */
export const poolRights = ({ app, pool }: Sender): Rights =>
  ofPool({ app: token('app', app), pool: token<'pool'>('pool', pool) satisfies Pool })

export const RIGHTS: { [role in Role]: Rights } = {
  edge: {
    publish: [
      'rpc.>',
      ...APP_HOST,
      'tunnel.graphs.>',
      'tunnel.resources.at.>',
      'ctl.*.*',
      'event.metrics.asked',
      'event.logs.asked',
      '$JS.API.DIRECT.GET.EVENTS',
      '_INBOX_resources.>',
      '_INBOX_graphs.>',
    ],
    never: [...DEPLOYER, ...calls('assistants', 'retire')],
    subscribe: ['_INBOX_edge.>', 'tunnel.edge.>', 'live.*', 'end.*', 'event.>'],
  },
  resources: {
    publish: [
      '_INBOX_edge.>',
      '_INBOX_graphs.>',
      '_INBOX_resources.>',
      '_INBOX_deployer.>',
      'end.*',
      'ctl.>',
      'event.>',
      'deploy.task.*.*',
      'queue.*',
      'chunk.$probe.0',
      'host.>',
      'slots.*',
      'tunnel.edge.>',
      'tunnel.graphs.>',
      'rpc.>',
      '$JS.API.>',
      '$SYS._INBOX.>',
    ],
    subscribe: ['_INBOX_resources.>', 'rpc.>', 'pool.>', 'event.>', 'tunnel.resources.>', '$SYS.REQ.USER.AUTH'],
  },
  graphs: ofPool({ app: '*', pool: '*' }),
  deployer: {
    publish: [
      ...DEPLOYER,
      ...calls('assistants', 'retire'),
      '_INBOX_resources.>',
      '_INBOX_edge.>',
      '$JS.API.CONSUMER.INFO.RUNS.*',
    ],
    // The subjects of pools wake revisions that have no replica.
    subscribe: [
      '_INBOX_deployer.>',
      'deploy.task.>',
      'event.>',
      'beat.*',
      'queue.*',
      'host.*.*',
      'tunnel.graphs.open.*',
    ],
  },
}
