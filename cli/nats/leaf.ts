/**
 * The configurations of a NATS server to which leaf nodes connect, and of a leaf node (docs/scaling.md#leaf-nodes-and-regions).
 * Servers pass `$JS.API.>` on to no leaf connection: JetStream of the hub has a domain, and a leaf node maps the API to its name.
 */
import { inDomain, POOLS_ACCOUNT, ROLES_ACCOUNT } from '../../bus/rights.js'
import { authorizationText, block, calloutText, type Secrets, usersText } from './config.js'

const ACCOUNTS = [ROLES_ACCOUNT, POOLS_ACCOUNT]

/** Each account has a separate leaf connection and user. `password`: the text of the password that both users have. */
export const hubText = (secrets: Secrets, password: string): string => `${authorizationText(secrets, true)}leafnodes {
  listen: "0.0.0.0:7422"
  authorization {
    ${block(
      'users',
      ACCOUNTS.map(account => `{ user: leaf-${account}, password: ${password}, account: ${account} }`),
    )}
  }
}
`

/** `urlsOf`: the text of the addresses of the hub for an account. What passes between accounts is a matter of the hub. */
export const leafText = (secrets: Secrets, urlsOf: (account: string) => string): string => `leafnodes {
  ${block(
    'remotes',
    ACCOUNTS.map(account => `{ urls: ${urlsOf(account)}, account: ${account} }`),
  )}
}
accounts {
${ACCOUNTS.map(account => accountText(account, secrets)).join('')}}
${calloutText(secrets.issuer)}`

/** Rights are checked after the mapping. */
const accountText = (account: string, { passwordOf }: Secrets) => `  ${account} {
    mappings { "$JS.API.>": "${inDomain('$JS.API.>')}" }
    ${usersText(account, passwordOf, inDomain)}
  }
`
