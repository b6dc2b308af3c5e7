import t from 'tap'
import { openRedactor } from '../../schemas/redact.js'

const pem = '-----BEGIN KEY-----\nMIIBVgIBADANBgkq\nhkiG9w0BAQ\n-----END KEY-----'

t.test('values, tokens and credentials are redacted', async t => {
  const { redact } = openRedactor([
    's3cret+/val',
    'short',
    'a"b\\c\nd-long',
    pem,
    's3cret+/val-and-more',
    'blank inside',
  ])
  const secret: string[] = [
    'x s3cret+/val y',
    JSON.stringify({ a: 'a"b\\c\nd-long' }),
    `?key=${encodeURIComponent('s3cret+/val')}`,
    `?key=${encodeURIComponent('s3cret+/val').toLowerCase()}`,
    '?key=blank+inside',
    `hex ${Buffer.from('s3cret+/val').toString('hex')}`,
    `HEX ${Buffer.from('s3cret+/val').toString('hex').toUpperCase()}`,
    'MIIBVgIBADANBgkq',
    's3cret+/val-and-more',
    'clone https://user:hunter2@example.com/x',
    'clone https://hunter2@example.com/x',
    'clone https://user:hunt@hunter2@example.com/x',
    'token ghp_0123456789abcdefghijABCDEFGHIJ',
    'sk-proj-0123456789abcdefghij',
    'jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh',
    'Bearer-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh',
    's3cret+/vals3cret+/val',
  ]
  for (const text of secret) {
    const out = redact(text)
    t.match(out, /\[redacted\]/, out)
    t.notMatch(out, /s3cret|hunter2|MIIBV|ghp_|sk-proj|eyJ|d-long|-and-more|blank|7333637265742b2f76616c/i)
  }
  t.equal(redact('s3cret+/vals3cret+/val!'), '[redacted][redacted]!', 'beside each other')
  for (const text of [
    'a short word',
    'https://example.com/a@b',
    'git@example.com:a',
    'deploy 100%',
    '',
    'a',
    's3cret+/va',
  ])
    t.equal(redact(text), text)
  t.equal(openRedactor([]).redact('nothing to hide'), 'nothing to hide')
  t.equal(openRedactor(['\ud800 lone surrogate']).redact('x \ud800 lone surrogate'), 'x [redacted]')
})

t.test('base64 of any text around a value is redacted', async t => {
  const value = 'registry-token-zzz-123456'
  const { redact } = openRedactor([value])
  for (const before of ['', 'u', 'us', 'user:', 'user1:', 'a-user:'])
    for (const after of ['', '\n', ' and', ' and more'])
      for (const encoding of ['base64', 'base64url'] as const) {
        const out = redact(`Authorization: Basic ${Buffer.from(before + value + after).toString(encoding)}`)
        const rest = out.replace(/^.* /, '').replaceAll('[redacted]', ' ')
        const shown = rest.split(' ').map(part => Buffer.from(part, 'base64').toString('latin1'))
        t.match(out, /\[redacted\]/, `${before}…${after} ${encoding}`)
        t.notMatch(shown.join(' '), /token|zzz|12345/)
      }
})

t.test('large values and many values', async t => {
  const large = `${'A'.repeat(32 * 1024 - 1)}B`
  const many = Array.from({ length: 2_000 }, (_, i) => `many-${i}-values`)
  const { redact } = openRedactor([large, ...many])
  t.equal(redact(`x ${large} y`), 'x [redacted] y')
  t.equal(redact('A'.repeat(20_000)), 'A'.repeat(20_000), 'a part of a value is not the value')
  t.equal(
    redact('many-7-values and many-1999-values, not many-2000-values'),
    '[redacted] and [redacted], not many-2000-values',
  )
})

t.test('the longest form is known', async t => {
  t.equal(openRedactor([]).longest, 0)
  t.equal(openRedactor(['x'.repeat(100)]).longest, 200, 'hex doubles the length')
})

t.test('the time is linear in the text, whatever an application prints', async t => {
  const values = Array.from({ length: 200 }, (_, i) => `value-${i}-of-many-secrets`)
  const { redact } = openRedactor(values)
  const hostile = ['a.', 'eyJaaaaaaaaaaaaaaaaa-', 'eyJaaaaaaaaaaaaa.', '://', 'a://b', '\u009b]', 'sk-', 'value-', 'x']
  const time = (unit: string, length: number) => {
    const text = unit.repeat(length / unit.length)
    const took = [1, 2, 3].map(() => {
      const before = process.cpuUsage()
      redact(text)
      // CPU time: the clock also counts the time of other processes.
      return process.cpuUsage(before).user / 1_000
    })
    return Math.min(...took)
  }
  for (const unit of hostile) {
    time(unit, 64 * 1024)
    // Sixteen times the length; a quadratic pattern takes 256 times as long. Half a millisecond is noise of the clock.
    const [short, long] = [time(unit, 64 * 1024), time(unit, 1024 * 1024)]
    t.ok(long < 16 * 5 * Math.max(short, 0.5), `${JSON.stringify(unit)}: ${short.toFixed(1)} ms, ${long.toFixed(1)} ms`)
  }
})
