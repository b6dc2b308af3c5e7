/** TLS and files of passwords as libpq has them, on a real server: what is checked, and what a refusal says. */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { serverUser } from '../../scripts/postgres/server.js'
import { openPostgres } from '../../store/postgres.js'
import { startOwnPostgres } from '../helpers/stores/postgres-server.js'

t.setTimeout(120_000)
// The server runs as another user, who may not reach the folder of the tests.
const folder = mkdtempSync(join(tmpdir(), 'weft-postgres-tls-'))
const file = (name: string) => join(folder, name)
const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'ignore' })
const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
for (const name of ['ca', 'other'])
  openssl('req', '-x509', ...key, '-keyout', `${name}.key`, '-out', `${name}.pem`, '-subj', `/CN=${name}`)
writeFileSync(file('names'), 'subjectAltName=DNS:localhost\n')
openssl('req', ...key, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=server')
const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
openssl('x509', '-req', '-in', 'server.csr', '-out', 'server.pem', ...signed)
// The user of the tests looks whether the server is there; the other one needs TLS and a password.
writeFileSync(file('hba.conf'), 'host all weft 127.0.0.1/32 trust\nhostssl all guarded 127.0.0.1/32 scram-sha-256\n')
chmodSync(file('server.key'), 0o600)
const user = serverUser()
if (user !== null) for (const one of [folder, file('server.key'), file('hba.conf')]) chownSync(one, user.uid, user.gid)
const server = await startOwnPostgres({
  ssl: 'on',
  ssl_cert_file: file('server.pem'),
  ssl_key_file: file('server.key'),
  hba_file: file('hba.conf'),
})
t.teardown(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})
const admin = new pg.Client(server.url('postgres'))
await admin.connect()
await admin.query("CREATE USER guarded PASSWORD 'se:cret'")
await admin.query('GRANT CREATE ON DATABASE postgres TO guarded')

/** How the connections of an opened store are encrypted; the error when it cannot be opened. */
async function opened(password: string | null, host: string, search: string): Promise<boolean | string> {
  const url = new URL(server.url('postgres'))
  url.username = 'guarded'
  url.password = password === null ? '' : encodeURIComponent(password)
  url.hostname = host
  url.search = search
  try {
    const store = await openPostgres({ url: url.href })
    await store.ping()
    const { rows } = await admin.query(
      "SELECT bool_and(ssl) AS all FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'guarded'",
    )
    await store.close()
    return rows[0].all
  } catch (error) {
    return (error as Error).message
  }
}

t.test('sslmode and sslrootcert', async t => {
  const [ca, other] = [file('ca.pem'), file('other.pem')]
  const as = (host: string, search: string) => opened('se:cret', host, search)
  t.match(await as('localhost', ''), /no pg_hba.conf entry.*no encryption/, 'the server wants TLS')
  t.match(await as('localhost', 'sslmode=disable'), /no encryption/)
  t.equal(await as('127.0.0.1', 'sslmode=require'), true, 'any certificate')
  t.equal(await as('127.0.0.1', `sslmode=require&sslrootcert=${ca}`), true)
  t.match(await as('127.0.0.1', `sslmode=require&sslrootcert=${other}`), /certificate/)
  t.equal(await as('127.0.0.1', `sslmode=verify-ca&sslrootcert=${ca}`), true, 'of the authority, for any name')
  t.match(await as('127.0.0.1', `sslmode=verify-ca&sslrootcert=${other}`), /certificate/)
  t.equal(await as('localhost', `sslmode=verify-full&sslrootcert=${ca}`), true)
  t.match(await as('127.0.0.1', `sslmode=verify-full&sslrootcert=${ca}`), /IP: 127\.0\.0\.1 is not in the cert's list/)
  t.match(await as('localhost', 'sslmode=verify-full'), /certificate/, 'of no authority of the machine')
  t.match(await as('localhost', `sslmode=verify-full&sslrootcert=${file('none')}`), /no such file/)
})

t.test('the file of PGPASSFILE', async t => {
  const { port } = new URL(server.url('postgres'))
  const passwords = file('passwords')
  const without = await opened(null, 'localhost', 'sslmode=require')
  t.match(
    without,
    /^the server asks for a password: write it into DATABASE_URI, or into the file that PGPASSFILE names/,
  )
  process.env.PGPASSFILE = passwords
  t.teardown(() => delete process.env.PGPASSFILE)
  writeFileSync(passwords, `other:*:*:*:wrong\nlocalhost:${port}:postgres:guarded:se\\:cret\n`, { mode: 0o600 })
  t.equal(await opened(null, 'localhost', 'sslmode=require'), true)
  t.match(await opened('wrong', 'localhost', 'sslmode=require'), /password authentication failed/, 'the URL is first')
  chmodSync(passwords, 0o644)
  t.equal(await opened(null, 'localhost', 'sslmode=require'), without, 'others could read it')
})

t.test('the end', () => admin.end())
