import t from 'tap'
import { parseNetwork, publicRules, type Rules } from '../../workers/child/egress-rules.js'

const listed = (text: string): Rules => {
  const found = parseNetwork(text)
  if (typeof found === 'string') throw new Error('expected a list')
  return found
}

t.test('the values of WEFT_HOST_NETWORK', async t => {
  for (const text of ['on', 'true', '1', ' ON ']) t.equal(parseNetwork(text), 'on')
  for (const text of ['off', 'false', '0', 'no']) t.equal(parseNetwork(text), 'off')
  for (const text of ['http://a.example', 'a b', 'a.example:', '*', 'a.*.example', '-a', '[a]:1', 'a/b', 'a.example/8'])
    t.throws(() => parseNetwork(text), /WEFT_HOST_NETWORK: expected/, text)
})

t.test('a list', async t => {
  const list = 'api.example.com:443, *.example.org, 203.0.113.7, 10.0.0.0/8, 192.168.1.1:5432, ::1, [2001:4860::1]:443'
  const rules = listed(list)
  const not = /is not in WEFT_HOST_NETWORK/
  for (const [host, port] of [
    ['203.0.113.7', 1],
    ['10.1.2.3', 80],
    ['192.168.1.1', 5432],
    ['::1', 80],
    ['2001:4860::1', 443],
  ] as const)
    t.equal((await rules(host, port)).address, host, `${host}:${port}`)
  for (const [host, port] of [
    ['api.example.com', 80],
    ['x.api.example.com', 443],
    ['example.org', 443],
    ['badexample.org', 443],
    ['example.org.evil.test', 443],
    ['203.0.113.8', 443],
    ['192.168.1.1', 80],
    ['2001:4860::1', 80],
    ['127.0.0.1', 443],
    ['localhost', 443],
    ['::ffff:10.0.0.1', 443],
  ] as const)
    if (host === '::ffff:10.0.0.1') t.equal((await rules(host, port)).address, host, 'the same address')
    else await t.rejects(rules(host, port), not, `${host}:${port}`)
})

t.test('a name that leads to this machine', async t => {
  await t.rejects(
    listed('localhost')('localhost', 80),
    /leads to .*not public; WEFT_HOST_NETWORK may list that address/,
  )
  t.match(await listed('localhost, 127.0.0.0/8, ::1')('localhost', 80), { address: /^(127\.0\.0\.1|::1)$/ })
  await t.rejects(listed('localhost, 127.0.0.1:81, [::1]:81')('localhost', 80), /not public/, 'on another port')
})

t.test('metadata services are closed, whatever lists them', async t => {
  await t.rejects(listed('169.254.0.0/16')('169.254.169.254', 80))
})

t.test('installs reach public addresses, and what WEFT_ALLOW_HOSTS opens', async t => {
  const rules = publicRules('127.0.0.2:4873')
  t.equal((await rules('203.0.114.7', 443)).address, '203.0.114.7')
  t.equal((await rules('127.0.0.2', 4873)).address, '127.0.0.2')
  for (const [host, port] of [
    ['127.0.0.1', 443],
    ['127.0.0.2', 80],
    ['10.0.0.1', 443],
    ['::1', 443],
    ['203.0.114.7', 22],
    ['localhost', 443],
  ] as const)
    await t.rejects(rules(host, port), /is not called: expected/, `${host}:${port}`)
})
