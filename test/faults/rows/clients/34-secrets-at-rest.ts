import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Authenticated, Waited } from '../../../../schemas/oauth.js'
import { callWithSecret, failWithSecret } from '../../../api/control-plane/secret-calls.js'
import { filesBelow, holds } from '../../../helpers/byte-search.js'
import type { Proc } from '../../../helpers/cluster.js'
import { KEY, openControl, openDeployer } from '../../../helpers/control.js'
import { heapEnv, heapOf } from '../../../helpers/heap-dump.js'
import { CLIENT, newPerson, openOidc } from '../../../helpers/oidc.js'
import { until } from '../../../helpers/until.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

const CANARY = 'canary-b07d51c2a94e6f38'
const [OLD, NEW] = ['the-old-encryption-key-e19c', 'the-new-encryption-key-57aa']
const RENEWED = 'all secrets are now encrypted with the first key'
/** Other requests between the last use of a secret and the look at the memory of the edge. */
const AFTERWARDS = 500

export const row: Row = {
  number: 34,
  name: 'Secrets at rest',
  fault:
    'Secrets of deployments and providers and tokens of OAuth are created, used, logged by a build and sent in wrong requests; ' +
    'then the encryption key is rotated.',
  promised:
    'No secret is in clear text, base64 or UTF-16 in the store, the files of the broker, logs, answers and errors, or in the ' +
    'memory of the edge after use. The old and the new key both read; after the rotation the new one alone does.',
  async run(stage) {
    const oidc = await openOidc()
    stage.defer(() => oidc.stop())
    const env = { WEFT_CONTROL_KEY: KEY, WEFT_ALLOW_HOSTS: oidc.host, LOG_LEVEL: 'debug' }
    const roles = await stage.roles({ edges: 0, resources: 0, graphs: 0, env })
    const workers = stage.store === 'sqlite' ? 1 : 2
    const past: Proc[] = []
    const start = (keys: string) => roles.add('resources', undefined, { WEFT_ENCRYPTION_KEY: keys })
    for (let n = 0; n < workers; n++) roles.resources.push(await start(OLD))
    const heap = join(stage.folder, 'heap')
    mkdirSync(heap)
    const edge = await roles.add('edge', undefined, heapEnv(heap))
    const url = `http://127.0.0.1:${edge.port}`

    const call = openControl(url)
    const deployer = await openDeployer(roles.nats.url('deployer'))
    stage.defer(() => deployer.close())
    const calls = await callWithSecret(call, CANARY)
    stage.expect(calls.accepted.length === 0, `accepted: ${calls.accepted.join('; ')}`)
    const given = await failWithSecret(deployer, calls, CANARY)
    stage.expect(given.TOKEN === CANARY, 'the deploy worker did not receive the secret')

    oidc.serve([`${url}/v2/auth/callback/oidc`])
    await calls.say('POST', '/v2/auth/providers', {
      provider_id: 'oidc',
      name: 'P',
      ...CLIENT,
      auth_url: `${oidc.issuer}/auth?prompt=consent`,
      token_url: `${oidc.issuer}/token`,
      issuer: oidc.issuer,
      uses_pkce: true,
    })
    const ask = async (user_id: string) =>
      (await call<Authenticated>('POST', '/v2/auth/authenticate', { provider: 'oidc', scopes: ['openid'], user_id }))
        .body
    /** A new flow to its end, for which the client secret is read; true: it gave a token. */
    const consents = async (user_id: string) => {
      const begun = await ask(user_id)
      if (!('url' in begun)) return false
      const page = await newPerson().consent(begun.url)
      calls.answers.push(page.text)
      const { body } = await call<Waited>('GET', `/v2/auth/wait/${begun.auth_id}?timeout=30`)
      return body.status === 'completed'
    }
    stage.expect(await consents('first'), 'the flow of OAuth gave no token')
    const imported = `imported-${CANARY}`
    const { body: kept } = await calls.say<{ token_id: string }>('POST', '/v2/auth/tokens/import', {
      provider_id: 'oidc',
      access_token: imported,
      refresh_token: `refresh-${CANARY}`,
      scopes: ['openid'],
      user_id: 'imports',
    })
    stage.expect(typeof kept.token_id === 'string', 'the token was not imported')
    await calls.say('GET', '/v2/auth/tokens')

    let users = 0
    const readsAll = async (): Promise<string | null> => {
      const token = await ask('imports')
      if (!('token' in token) || token.token !== imported) return 'the imported token is not read'
      if (!(await consents(`user ${++users}`))) return 'the client secret of the provider is not read'
      const { made } = calls
      const { status } = await call('POST', `/v2/deployments/${made.id}/revisions`, {})
      const task = await deployer.claim(['github'])
      if (task?.env.TOKEN !== CANARY) return `the secrets of a deployment are not read (${status})`
      await deployer.advance(task, 'BUILDING')
      await deployer.advance(task, 'BUILD_FAILED', { message: 'no' })
      return null
    }
    const looks = { all: 0, whole: 0 }
    const look = async (when: string) => {
      looks.all++
      const why = await readsAll().catch(error => (error as Error).message)
      if (why === null) looks.whole++
      stage.expect(why === null, `${when}: ${why}`)
    }
    await look('before the rotation')

    const rings = workers === 1 ? [`${NEW},${OLD}`, NEW] : [`${OLD},${NEW}`, `${NEW},${OLD}`, NEW]
    for (const keys of rings) {
      for (const [n, proc] of roles.resources.entries()) {
        await proc.stop()
        past.push(proc)
        roles.resources[n] = await start(keys)
        await look(`${rings.indexOf(keys) + 1}. step of the rotation`)
      }
      if (keys !== `${NEW},${OLD}`) continue
      await until(() => roles.resources.some(proc => proc.output().includes(RENEWED))).catch(() =>
        stage.expect(false, 'the secrets were not encrypted again'),
      )
    }
    for (let n = 0; n < AFTERWARDS; n++) await stage.ledger.call({ url, path: '/threads', body: { metadata: { n } } })
    const { snapshot, buffers } = await heapOf(edge, heap)

    const secrets = [CANARY, CLIENT.client_secret, OLD, NEW, ...Object.values(oidc.issued).flat()]
    const places = new Map<string, number>()
    let bytes = 0
    let records = 0
    const search = (place: string, content: Uint8Array, about = place) => {
      bytes += content.length
      if (Buffer.from(content.buffer, content.byteOffset, content.length).includes('"client_secret":"w1.')) records++
      const found = secrets.filter(secret => holds(content, secret))
      places.set(place, (places.get(place) ?? 0) + found.length)
      stage.expect(found.length === 0, `${found.length} secrets in ${about}, as ${found[0]?.slice(0, 12)}…`)
    }
    search('memory of the edge', snapshot, 'the heap of the edge')
    search('memory of the edge', buffers, 'buffers of the edge')
    stage.expect(snapshot.includes('/v2/auth/wait/'), 'the heap snapshot is not whole')
    for (const answer of calls.answers) search('answers', Buffer.from(answer), `the answer ${answer.slice(0, 60)}`)
    const searchFiles = async () => {
      for (const file of filesBelow(roles.nats.data))
        search('files', readFileSync(file), file.slice(roles.nats.data.length))
      for (const { name, rows } of await documentsOf(stage)) for (const row of rows) search('documents', row, name)
    }
    await searchFiles()
    stage.expect(records > 0, 'the store was not searched')
    const procs = [edge, ...roles.resources]
    for (const proc of procs) await proc.stop()
    for (const proc of [...procs, ...past]) search('logs', Buffer.from(proc.output()), 'a log')
    await searchFiles()
    const last = await start(OLD)
    await until(() => last.output().includes('secrets cannot be used')).catch(() =>
      stage.expect(false, 'the old key still reads after the rotation'),
    )
    const hits = [...places].map(([place, n]) => `${n} in ${place}`).join(', ')
    return {
      load: `${secrets.length} secrets, ${calls.answers.length} bodies and heads of answers, ${rings.length} steps of the rotation with ${workers} resource workers`,
      measured: `secrets found: ${hits} (${Math.round(bytes / 1_000_000)} MB searched); ${looks.whole} of ${looks.all} times all of them were read, before, during and after the rotation`,
    }
  },
}

/** Every document or row of a database server as its bytes; the embedded store is a file. */
async function documentsOf({ env, store }: Stage): Promise<{ name: string; rows: Uint8Array[] }[]> {
  if (store === 'sqlite') return []
  if (store === 'postgres') return rowsOf(env().DATABASE_URI)
  const { MongoClient } = await import('mongodb')
  const client = await new MongoClient(env().MONGODB_URL).connect()
  try {
    const all: { name: string; rows: Uint8Array[] }[] = []
    for (const { collectionName: name } of await client.db().collections()) {
      const rows = await client.db().collection(name).find({}, { raw: true }).toArray()
      all.push({ name, rows: rows as never as Uint8Array[] })
    }
    return all
  } finally {
    await client.close()
  }
}

async function rowsOf(url: string): Promise<{ name: string; rows: Uint8Array[] }[]> {
  const { default: pg } = await import('pg')
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'weft'",
    )
    const all: { name: string; rows: Uint8Array[] }[] = []
    for (const { name } of tables) {
      const { rows } = await client.query<unknown[]>({ text: `SELECT * FROM weft.${name}`, rowMode: 'array' })
      const bytes = rows.flat().map(value => (value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value))))
      all.push({ name, rows: bytes })
    }
    return all
  } finally {
    await client.end()
  }
}
