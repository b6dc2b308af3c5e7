/**
 * The users of pools on the broker (auth callout of NATS, ADR-26): the broker asks resource workers about every user that is
 * not one of a role, and they answer with the rights of that pool alone. A password is derived from the issuer's key, so all
 * resource workers know it and none stores it.
 *
 * The JWTs are encoded here: the library for it (@nats-io/jwt) signs in JavaScript, which blocks the event loop for 30 to
 * 100 ms per connection, and all graph workers connect at once after a restart of the broker.
 */
import { createHmac, createPrivateKey, type KeyObject, randomBytes, sign, timingSafeEqual } from 'node:crypto'
import type { Msg } from 'nats'
import { createAccount, fromSeed } from 'nkeys.js'
import type { PoolUser } from '../schemas/deploy-calls.js'
import { isObject, type JsonObject } from '../schemas/json.js'
import type { Sender } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import { inDomain, POOLS_ACCOUNT, poolRights } from './rights.js'

export interface Issuer {
  /** Named by the configuration of the broker, as `issuer` of `auth_callout`. */
  publicKey: string
  userOf(sender: Sender): PoolUser
  /** The pool with this name and password; null: there is none. */
  senderOf(user: string, password: string): Sender | null
  /** A signed JWT. */
  encode(claims: JsonObject): string
}

const ASKED = '$SYS.REQ.USER.AUTH'
/** Before the 32 bytes of an Ed25519 seed in a PKCS #8 key (RFC 8410, 7). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const decoder = new TextDecoder()

/** The seed of a new issuer. */
export const newIssuerSeed = (): string => decoder.decode(createAccount().getSeed())

/** Throws an Error with one sentence for a text that is no seed of an account. */
export function openIssuer(seed: string): Issuer {
  const { raw, publicKey } = readSeed(seed)
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, raw]), format: 'der', type: 'pkcs8' })
  const passwordOf = ({ app, pool }: Sender) =>
    createHmac('sha256', raw).update(`pool user ${app} ${pool}`).digest('base64url')
  return {
    publicKey,
    userOf: sender => ({ user: `${sender.app}.${sender.pool}`, password: passwordOf(sender) }),
    senderOf(user, password) {
      const [app = '', pool = '', ...rest] = user.split('.')
      if (app === '' || pool === '' || rest.length > 0) return null
      const sender = { app, pool }
      const [given, right] = [password, passwordOf(sender)].map(text => createHmac('sha256', raw).update(text).digest())
      return timingSafeEqual(given!, right!) ? sender : null
    },
    encode: claims => encode({ iss: publicKey, ...claims }, key),
  }
}

function readSeed(seed: string): { raw: Uint8Array; publicKey: string } {
  try {
    const pair = fromSeed(new TextEncoder().encode(seed.trim())) as ReturnType<typeof fromSeed> & {
      getRawSeed(): Uint8Array
    }
    const publicKey = pair.getPublicKey()
    if (publicKey.startsWith('A')) return { raw: pair.getRawSeed(), publicKey }
  } catch {
    // It is a seed of another kind.
  }
  throw new Error('WEFT_NATS_ISSUER is no seed of a NATS account: "weft nats init" makes one')
}

function encode(claims: JsonObject, key: KeyObject): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const body = { jti: randomBytes(16).toString('hex'), iat: Math.floor(Date.now() / 1_000), ...claims }
  const text = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part(body)}`
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`
}

interface Options {
  link: Link
  issuer: Issuer
  /** Whether the pool exists (still). Rejects when that cannot be found out: the broker then refuses the user for now. */
  isKnown(sender: Sender): Promise<boolean>
}

/** Answers the broker until `close`. Several resource workers share the questions. */
export function answerPoolUsers({ link, issuer, isKnown }: Options): { close(): void } {
  async function answer(message: Msg): Promise<void> {
    const asked = readRequest(message.data)
    if (asked === null) throw new Error('the broker asked about a user in an unknown form')
    const { user_nkey, server, user, password } = asked
    const respond = (nats: JsonObject) =>
      message.respond(
        issuer.encode({ sub: user_nkey, aud: server, nats: { ...nats, type: 'authorization_response', version: 2 } }),
      )
    const sender = issuer.senderOf(user, password)
    if (sender === null || !(await isKnown(sender))) {
      link.log.warn(
        { user: user.slice(0, 200) },
        'a user was refused at the broker: no pool has this name and password',
      )
      return void respond({ error: 'unknown user' })
    }
    const { publish, subscribe } = poolRights(sender)
    const jwt = issuer.encode({
      sub: user_nkey,
      aud: POOLS_ACCOUNT,
      name: user,
      nats: {
        // The user may be asked about by a leaf node.
        pub: { allow: [...new Set(publish.flatMap(subject => [subject, inDomain(subject)]))] },
        sub: { allow: subscribe },
        subs: -1,
        data: -1,
        payload: -1,
        type: 'user',
        version: 2,
      },
    })
    respond({ jwt })
  }

  const subscription = link.subscribe(
    ASKED,
    message =>
      void answer(message).catch(err => link.log.warn({ err }, 'the broker asked about a user and got no answer')),
    { queue: 'resources' },
  )
  return { close: () => subscription.unsubscribe() }
}

/** Null for anything but a question of the broker about a user with a password. */
function readRequest(data: Uint8Array): { user_nkey: string; server: string; user: string; password: string } | null {
  const body = Buffer.from(data).toString().split('.')[1]
  const claims: unknown = body === undefined ? null : JSON.parse(Buffer.from(body, 'base64url').toString())
  const nats = isObject(claims) ? claims.nats : null
  if (!isObject(nats) || typeof nats.user_nkey !== 'string' || !isObject(nats.server_id)) return null
  const options = isObject(nats.connect_opts) ? nats.connect_opts : {}
  return {
    user_nkey: nats.user_nkey,
    server: String(nats.server_id.id),
    user: String(options.user ?? ''),
    password: String(options.pass ?? ''),
  }
}
