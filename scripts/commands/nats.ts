/**
 * `weft nats`: what a NATS server of your own needs to know Weft's users. The passwords and the issuer are variables, for a
 * Secret or an env file; the configuration names them and can be published.
 */
import { randomBytes } from 'node:crypto'
import { newIssuerSeed, openIssuer } from '../../bus/pool-users.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { authorizationText, ROLES } from '../nats/config.js'
import { readSettings } from '../read-settings.js'
import { UserError } from '../user-error.js'

const passwordVariable = (role: string): string => `NATS_${role.toUpperCase()}_PASSWORD`
const ISSUER_VARIABLE = 'NATS_ISSUER'

/** Prints new secrets as lines NAME=value. */
export function printSecrets({ json }: { json?: true }): void {
  const seed = newIssuerSeed()
  const secrets = {
    // A letter first: the configuration of NATS would read digits as a number.
    ...Object.fromEntries(ROLES.map(role => [passwordVariable(role), `p${randomBytes(24).toString('base64url')}`])),
    [ISSUER_VARIABLE]: openIssuer(seed).publicKey,
    WEFT_NATS_ISSUER: seed,
  }
  const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}`)
  process.stdout.write(`${json ? JSON.stringify(secrets) : lines.join('\n')}\n`)
}

/** Prints the `authorization` block of the configuration. */
export function printConfig(): void {
  process.stdout.write(natsAuthorization())
}

/** With variables of the server's environment for what is secret. */
export const natsAuthorization = (): string =>
  authorizationText(role => `$${passwordVariable(role)}`, `$${ISSUER_VARIABLE}`)

/** Prints the user of a pool as it stands in NATS_URL: name and password. */
export function printUser(pool: string, { app = BUILT_IN_APP, json }: { app?: string; json?: true }): void {
  const { nats_issuer } = readSettings({})
  if (nats_issuer === '')
    throw new UserError('WEFT_NATS_ISSUER is not set: the password of a pool is made from it (weft nats init)', 2)
  try {
    const { user, password } = openIssuer(nats_issuer).userOf({ app: token('app', app), pool: token('pool', pool) })
    process.stdout.write(`${json ? JSON.stringify({ user, password }) : `${user}:${password}`}\n`)
  } catch (error) {
    throw new UserError((error as Error).message, 2)
  }
}
