import { randomBytes } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readConfig } from '../../schemas/config.js'
import { keyRingOf, openRing } from '../../workers/resources/keys/ring.js'
import { readOrCreateSecret } from '../../workers/resources/keys/secret-file.js'

const OLD = 'an old key of this installation'
const NEW = randomBytes(32).toString('base64')

t.test('a sealed value opens at its place and nowhere else', async t => {
  const ring = openRing(OLD)
  for (const text of ['', 'canary', 'ü\0𝄞', 'x'.repeat(600_000)]) {
    const sealed = ring.seal(text, 'here')
    t.equal(ring.open(sealed, 'here'), text)
    t.notMatch(sealed, text.slice(0, 20) || 'canary')
  }
  const sealed = ring.seal('canary', 'here')
  t.not(ring.seal('canary', 'here'), sealed, 'two seals of one value differ')
  t.throws(() => ring.open(sealed, 'there'), /there cannot be opened/)
  t.throws(() => ring.open('canary', 'here'), /not a sealed text/)
  t.throws(() => openRing(NEW).open(sealed, 'here'), /needs the encryption key [0-9a-f]{12}/)
  const parts = sealed.split('.')
  for (let i = 2; i < parts.length; i++)
    for (const at of [0, 20, parts[i]!.length - 2]) {
      const changed = [...parts]
      const char = parts[i]![at] === 'A' ? 'B' : 'A'
      changed[i] = `${parts[i]!.slice(0, at)}${char}${parts[i]!.slice(at + 1)}`
      t.throws(() => ring.open(changed.join('.'), 'here'), `part ${i} changed at ${at}`)
    }
})

t.test('keys are rotated: the first encrypts, all decrypt, a renewed value does not need the old key', async t => {
  const sealed = openRing(OLD).seal('canary', 'here')
  const both = openRing(`${NEW}, ${OLD}`)
  t.equal(both.open(sealed, 'here'), 'canary')
  const renewed = both.renew(sealed, 'here')!
  t.equal(openRing(NEW).open(renewed, 'here'), 'canary')
  t.equal(both.renew(renewed, 'here'), null, 'once')
  t.equal(openRing(NEW).open(both.seal('x', 'y'), 'y'), 'x')
  t.throws(() => openRing(' , '), /holds no key/)
  t.throws(() => openRing('short'), /at least 16/)
})

t.test('the key comes from the settings, else it is created once and only its owner can read it', async t => {
  const data = t.testdir({})
  const given = keyRingOf(readConfig({ WEFT_ENCRYPTION_KEY: OLD, LANGGRAPH_AES_KEY: NEW }, { data }))
  t.equal(given.id, openRing(OLD).id)
  t.equal(
    keyRingOf(readConfig({ LANGGRAPH_AES_KEY: '0123456789abcdef' }, { data })).id,
    openRing('0123456789abcdef').id,
  )
  const made = keyRingOf(readConfig({}, { data }))
  t.equal(keyRingOf(readConfig({}, { data })).id, made.id, 'the next start reads the same key')
  const file = join(data, 'encryption.key')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(Buffer.from(readFileSync(file, 'utf8'), 'base64').length, 32)
  t.throws(() => readConfig({ WEFT_CONTROL_KEY: 'short' }), /at least 16 characters/)

  const open = join(data, 'open.key')
  writeFileSync(open, 'given by hand\n', { mode: 0o644 })
  t.equal(
    readOrCreateSecret(open, () => 'other'),
    'given by hand',
  )
  t.equal(statSync(open).mode & 0o777, 0o600, 'closed')
  writeFileSync(open, '')
  t.throws(() => readOrCreateSecret(open, () => 'other'), /is empty/)
})
