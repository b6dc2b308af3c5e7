import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openLink, type TlsFiles } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { authorityIn } from './certificates.js'

const silent = openLog('test', 'silent')
const open = (url: string, tls?: TlsFiles, log = silent) => openLink({ url, role: 'graphs', log, tls })

/** A listener that behaves like a NATS server without TLS and records what clients send to it. */
async function plainServer(t: Test) {
  let received = ''
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', part => {
      received += part
      if (received.includes('PING')) socket.write('PONG\r\n')
    })
    socket.write('INFO {"server_id":"x","version":"2.14.0","proto":1,"headers":true,"max_payload":1048576}\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { port: (server.address() as { port: number }).port, received: () => received }
}

/** A NATS server that requires TLS and a client certificate of its authority. */
async function tlsServer(t: Test, names = 'IP:127.0.0.1,DNS:localhost') {
  const folder = mkdtempSync(join(t.testdir(), 'server-'))
  const file = (name: string) => join(folder, name)
  const { ca, issue } = authorityIn(folder, 'authority')
  const own = issue('server', names)
  const tls = `{ cert_file: "${own.cert}", key_file: "${own.key}", ca_file: "${ca}", verify: true }`
  writeFileSync(
    file('nats.conf'),
    `listen: "127.0.0.1:-1"\nports_file_dir: "${folder}"\ntls: ${tls}\nauthorization { user: graphs, password: secret }\n`,
  )
  const child = spawn(await findNatsServer(), ['-c', file('nats.conf')], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  let log = ''
  child.stderr.on('data', part => (log += part))
  while (!log.includes('Server is ready')) {
    if (child.exitCode !== null) throw new Error(log)
    await sleep(10)
  }
  const port = Number(/client connections on 127\.0\.0\.1:(\d+)/.exec(log)![1])
  return { port, ca, ...issue('client', names) }
}

t.test('tls:// never sends a password to a server without TLS', async t => {
  const { port, received } = await plainServer(t)
  await t.rejects(open(`tls://graphs:s3cret@127.0.0.1:${port}`), { message: /has no TLS, but NATS_URL says tls:\/\// })
  t.notMatch(received(), /s3cret|CONNECT/)
  const link = await open(`nats://graphs:s3cret@127.0.0.1:${port}`)
  t.match(received(), /s3cret/, 'the listener would have seen it')
  await link.close()
})

t.test('tls:// verifies the server, and shows a client certificate', async t => {
  const { port, ca, cert, key } = await tlsServer(t)
  const url = `tls://graphs:secret@127.0.0.1:${port}`
  await t.rejects(open(url), { message: /no NATS server answers .*(certificate|self)/i }, 'an unknown authority')
  await t.rejects(open(url, { ca, cert: '', key: '' }), { message: /no NATS server answers/ }, 'no client certificate')
  const link = await open(url, { ca, cert, key })
  t.ok(link.nc.info?.tls_required)
  await link.nc.flush()
  await link.close()
})

t.test('a certificate is valid for the address or the name in NATS_URL', async t => {
  const byAddress = await tlsServer(t, 'IP:127.0.0.1')
  const link = await open(`tls://graphs:secret@127.0.0.1:${byAddress.port}`, byAddress)
  await link.close()
  await t.rejects(open(`tls://graphs:secret@localhost:${byAddress.port}`, byAddress), { message: /altnames/ })
  const byName = await tlsServer(t, 'DNS:localhost')
  await t.rejects(open(`tls://graphs:secret@127.0.0.1:${byName.port}`, byName), {
    message: /IP: 127\.0\.0\.1 is not in the cert's list/,
  })
  const named = await open(`tls://graphs:secret@localhost:${byName.port}`, byName)
  await named.close()
  const other = await tlsServer(t, 'IP:127.0.0.2')
  await t.rejects(open(`tls://graphs:secret@127.0.0.1:${other.port}`, other), { message: /is not in the cert's list/ })
})

t.test('a URL or file that cannot be used is one sentence, without the password', async t => {
  const files = { ca: '', cert: '', key: '' }
  for (const [url, tls, message] of [
    ['ws://graphs:s3cret@h:1', files, 'NATS_URL begins with ws://; Weft supports nats:// and tls://'],
    ['http://h', files, 'NATS_URL begins with http://; Weft supports nats:// and tls://'],
    ['nats://', files, 'NATS_URL is not a URL such as nats://user:password@host:4222'],
    ['nats://a:1,tls://b:2', files, 'NATS_URL mixes nats:// and tls://: use one of them for all servers'],
    [
      'nats://a:1',
      { ...files, ca: 'x' },
      'WEFT_NATS_CA is set, but NATS_URL has no TLS: write tls:// instead of nats://',
    ],
    ['tls://a:1', { ...files, ca: '/nowhere.pem' }, /^WEFT_NATS_CA cannot be read: ENOENT/],
  ] as const) {
    const error = await open(url, tls).catch(error => error as Error)
    t.match(error, { message }, url)
    t.notMatch((error as Error).message, /s3cret/)
  }
})

t.test('a password that leaves this machine unencrypted is a warning', async t => {
  const lines: string[] = []
  const log = openLog('test', 'silent')
  log.warn = ((_: unknown, line: string) => void lines.push(line)) as typeof log.warn
  await t.rejects(open('nats://graphs:s3cret@host.invalid:4222', undefined, log))
  t.match(lines, [/password is sent unencrypted; use tls:\/\//])
  await t.rejects(open('nats://graphs:s3cret@127.0.0.1:1', undefined, log))
  t.equal(lines.length, 1, 'not for this machine')
})

t.test('a broker without users on another machine is a warning, and refused where keys are required', async t => {
  const { port } = await plainServer(t)
  const warnings: string[] = []
  const log = { ...silent, warn: (line: string) => void warnings.push(line) } as unknown as typeof silent
  const ask = (host: string, requireUsers: boolean) =>
    openLink({ url: `nats://${host}:${port}`, role: 'graphs', log, requireUsers })
  await (await ask('127.0.0.1', true)).close()
  t.same(warnings, [], 'nobody else reaches a loopback address')
  // An address that is not a loopback one, and reaches the same listener.
  await (await ask('0.0.0.0', false)).close()
  t.match(warnings, [/has no users: everybody who reaches it can do everything/])
  await t.rejects(ask('0.0.0.0', true), /has no users: .*"weft nats config" prints users for it/)
})
