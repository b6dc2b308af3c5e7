/**
 * `weft nats`: what a NATS server of your own needs to know Weft's users. The passwords and the issuer are variables, for a
 * Secret or an env file; the configuration names them and can be published.
 */
import { randomBytes } from 'node:crypto'
import { newIssuerSeed, openIssuer } from '../../bus/pool-users.js'
import type { PoolUser } from '../../schemas/deploy-calls.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { authorizationText, ROLES, type Secrets } from '../nats/config.js'
import { hubText, leafText } from '../nats/leaf.js'
import { readSettings } from '../read-settings.js'
import { UserError } from '../user-error.js'

const passwordVariable = (role: string): string => `NATS_${role.toUpperCase()}_PASSWORD`
const ISSUER_VARIABLE = 'NATS_ISSUER'
const LEAF_VARIABLE = 'NATS_LEAF_PASSWORD'

/** Prints new secrets as lines NAME=value, with the users of `pools`, each `pool` or `app.pool`. */
export function printSecrets({ pool: pools, json }: { pool: string[]; json?: true }): void {
  const seed = newIssuerSeed()
  const secrets = {
    ...Object.fromEntries(ROLES.map(role => [passwordVariable(role), newPassword()])),
    NATS_CLUSTER_PASSWORD: newPassword(),
    [LEAF_VARIABLE]: newPassword(),
    [ISSUER_VARIABLE]: openIssuer(seed).publicKey,
    WEFT_NATS_ISSUER: seed,
    ...Object.fromEntries(pools.map(name => userVariable(seed, name))),
  }
  const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}`)
  process.stdout.write(`${json ? JSON.stringify(secrets) : lines.join('\n')}\n`)
}

/** A letter first: the configuration of NATS would read digits as a number. */
const newPassword = (): string => `p${randomBytes(24).toString('base64url')}`

function userVariable(seed: string, name: string): [string, string] {
  const [pool = '', app = BUILT_IN_APP, ...rest] = name.split('.').reverse()
  if (rest.length > 0)
    throw new UserError(`--pool must be a pool, or an application and its pool, as research.default, not "${name}"`, 2)
  const { user, password } = userOf(seed, app, pool)
  return [`NATS_POOL_${pool.toUpperCase().replaceAll(/\W/g, '_')}`, `${user}:${password}`]
}

/** Prints the accounts and users for the configuration. */
export function printConfig({ hub, leaf }: { hub?: true; leaf?: true }): void {
  if (hub && leaf) throw new UserError('--hub and --leaf are configurations of different servers: choose one', 2)
  process.stdout.write(leaf ? natsLeaf() : hub ? natsHub() : natsAuthorization())
}

/** With variables of the server's environment for what is secret. */
const VARIABLES: Secrets = { passwordOf: role => `$${passwordVariable(role)}`, issuer: `$${ISSUER_VARIABLE}` }
export const natsAuthorization = (): string => authorizationText(VARIABLES)
const natsHub = (): string => hubText(VARIABLES, `$${LEAF_VARIABLE}`)
const natsLeaf = (): string => leafText(VARIABLES, account => `$NATS_HUB_${account}`)

/** Prints the user of a pool as it stands in NATS_URL: name and password. */
export function printUser(pool: string, { app = BUILT_IN_APP, json }: { app?: string; json?: true }): void {
  const { nats_issuer } = readSettings({})
  if (nats_issuer === '')
    throw new UserError('WEFT_NATS_ISSUER is not set: the password of a pool is made from it (weft nats init)', 2)
  const { user, password } = userOf(nats_issuer, app, pool)
  process.stdout.write(`${json ? JSON.stringify({ user, password }) : `${user}:${password}`}\n`)
}

function userOf(seed: string, app: string, pool: string): PoolUser {
  try {
    return openIssuer(seed).userOf({ app: token('app', app), pool: token('pool', pool) })
  } catch (error) {
    throw new UserError((error as Error).message, 2)
  }
}
