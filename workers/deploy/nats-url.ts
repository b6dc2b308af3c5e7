/** The broker's address for the graph workers of one revision. */
import type { PoolUser } from '../../schemas/deploy-calls.js'

/**
 * `url` with the user of the pool instead of its own; as it is when resource workers know no users of pools
 * (WEFT_NATS_ISSUER). Several servers are separated by commas.
 */
export const natsUrlOf = (url: string, user: PoolUser | null): string =>
  user === null
    ? url
    : url
        .split(',')
        .map(one => {
          const [, scheme = 'nats://', rest = ''] = /^\s*([a-z]+:\/\/)?(.*?)\s*$/.exec(one) ?? []
          const address = rest.slice(rest.lastIndexOf('@') + 1)
          return `${scheme}${encodeURIComponent(user.user)}:${encodeURIComponent(user.password)}@${address}`
        })
        .join()
