import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { LOOPBACKS, mayConnect, parseAllowed, post, refusal } from '../../workers/outbound.js'

const nothing = parseAllowed('')

t.test('addresses that are not public are refused, in every spelling', async t => {
  for (const url of [
    'http://127.0.0.1/',
    'http://127.1/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://0/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::]/',
    'http://10.1.2.3/',
    'http://172.20.0.1/',
    'http://192.168.1.1/',
    'http://169.254.169.254/latest',
    'http://100.64.0.1/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://localhost/',
    'http://a.localhost:8080/',
    'http://224.0.0.1/',
    'http://168.63.129.16/',
    'http://[::127.0.0.1]/',
    'http://[::ffff:0:7f00:1]/',
    'http://[2001::1]/',
    'http://[fec0::1]/',
    'http://[2001:db8::1]/',
    'http://[100::1]/',
  ])
    t.not(refusal(url, nothing), null, url)
  for (const url of [
    'ftp://example.org/',
    'file:///etc/passwd',
    'javascript:1',
    '/relative',
    'http://user:pw@example.org/',
    'http://example.org:22/',
    '',
  ])
    t.not(refusal(url, nothing), null, url)
  for (const url of [
    'http://example.org/',
    'https://example.org:8443/x?y',
    'http://93.184.216.34/',
    'http://[2606:2800:220:1::1]/',
  ])
    t.equal(refusal(url, nothing), null, url)
})

t.test('addresses that an operator allows are allowed, metadata services never', async t => {
  const allowed = parseAllowed('127.0.0.0/8, hooks.internal:9000, ::1, 169.254.0.0/16')
  t.equal(mayConnect('127.0.0.1', allowed), true)
  t.equal(mayConnect('::ffff:127.0.0.1', allowed), true)
  t.equal(mayConnect('10.0.0.1', allowed), false)
  t.equal(mayConnect('169.254.169.254', allowed), false)
  t.equal(refusal('http://hooks.internal:9000/x', allowed), null)
  t.not(refusal('http://hooks.internal:9001/x', allowed), null)
})

t.test('an address or a range that an operator allows is allowed on every port, a name on the usual ones', t => {
  const allowed = parseAllowed('127.0.0.0/8, ::1, 10.1.2.3, hooks.internal, other.internal:9000')
  for (const url of [
    'http://127.0.0.1:9000/',
    'http://127.8.9.10:1/',
    'http://[::1]:9000/',
    'http://10.1.2.3:22/',
    'http://hooks.internal:22/',
    'http://other.internal:9000/',
  ])
    t.equal(refusal(url, allowed), null, url)
  for (const url of [
    'http://10.1.2.4/',
    'http://other.internal:22/',
    'http://example.org:9000/',
    'http://localhost:9000/',
  ])
    t.match(refusal(url, allowed), /WEFT_ALLOW_HOSTS/, url)
  const everything = parseAllowed('0.0.0.0/0, ::/0')
  t.match(refusal('http://169.254.169.254:9000/', everything), /metadata service/)
  t.end()
})

t.test('metadata services are refused in every spelling, whatever is allowed', t => {
  const allowed = parseAllowed('0.0.0.0/0, ::/0')
  for (const address of [
    '169.254.169.254',
    '169.254.170.2',
    '168.63.129.16',
    'fd20:ce::254',
    '::ffff:169.254.169.254',
    '::169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    '2001:0:a9fe:a9fe::1',
    '2001:0:1:1:0:0:5601:5601',
  ])
    t.equal(mayConnect(address, allowed), false, address)
  t.equal(mayConnect('10.1.2.3', allowed), true)
  t.equal(mayConnect('fd00::1', allowed), true)
  t.end()
})

t.test('a range without a valid prefix is refused', t => {
  for (const text of ['10.0.0.0/', '10.0.0.0/x', '10.0.0.0/33', '::1/129', 'host/8', '10.0.0.0/-1'])
    t.throws(() => parseAllowed(text), { message: /^WEFT_ALLOW_HOSTS: expected .* got "/ }, text)
  t.end()
})

t.test('errors name the setting that allows an address, and never the path of a URL', async t => {
  t.match(refusal('http://localhost/', nothing), /WEFT_ALLOW_HOSTS/)
  await t.rejects(post('http://127.0.0.1/token-in-path', Buffer.from(''), {}, nothing), {
    message: /^http:\/\/127\.0\.0\.1 is not called: expected a public address; WEFT_ALLOW_HOSTS opens others$/,
  })
})

t.test('calls', async t => {
  const seen: { url: string; headers: object; body: string }[] = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.on('data', data => (body += data))
    request.on('end', () => {
      seen.push({ url: request.url!, headers: request.headers, body })
      if (request.url === '/redirect') response.writeHead(302, { location: '/elsewhere' }).end()
      else if (request.url === '/long') response.end(Buffer.alloc(10_000_000))
      else response.end('ok')
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => new Promise(done => server.close(done)))
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const allowed = parseAllowed(host)
  t.equal(await post(`http://${host}/a`, Buffer.from('{"a":1}'), { 'content-type': 'application/json' }, allowed), 200)
  t.match(seen[0], { url: '/a', body: '{"a":1}', headers: { 'content-type': 'application/json' } })
  t.equal(await post(`http://${host}/redirect`, Buffer.from(''), {}, allowed), 302)
  t.notOk(
    seen.some(one => one.url === '/elsewhere'),
    'redirects are not followed',
  )
  t.equal(await post(`http://${host}/long`, Buffer.from(''), {}, allowed), 200)
  await t.rejects(post(`http://${host}/a`, Buffer.from(''), {}, nothing), /not called/)
  await t.rejects(post('http://localhost/', Buffer.from(''), {}, parseAllowed('')), /not called/)
  const named = `http://localhost:${(server.address() as AddressInfo).port}/`
  const byName = parseAllowed('localhost')
  await t.rejects(post(named, Buffer.from(''), {}, { ...byName, closed: LOOPBACKS }), /the application does not close/)
})
