/** Encryption of states with a key of the server: what it leaves plain, and where a value opens. */
import t from 'tap'
import { readConfig } from '../../../schemas/config.js'
import { ownCipher } from '../../../workers/resources/encryption/own.js'
import { openRing } from '../../../workers/resources/keys/ring.js'

const ring = openRing('a key of more than sixteen characters')
const cipher = ownCipher(readConfig({}, { encrypt_states: true, aes_json_keys: 'secret' }), ring)
const metadata = (text: string, app = 'one') =>
  ({ app, kind: 'json', model: 'thread', field: 'metadata', bytes: Buffer.from(text) }) as const

t.test('named keys are encrypted, and the order of all is kept', async t => {
  const text = '{"a":1,"secret":"canary","b":2}'
  const bytes = cipher.seal(metadata(text))!
  t.match(JSON.parse(Buffer.from(bytes).toString()), { a: 1, b: 2 })
  t.notMatch(Buffer.from(bytes).toString(), /canary/)
  const sealed = { ...metadata(text), context: {}, bytes }
  t.equal(Buffer.from(cipher.open(sealed)).toString(), text)
  t.throws(() => cipher.open({ ...sealed, app: 'other' }), /belongs elsewhere/, 'of another application')
  t.throws(() => cipher.open({ ...sealed, field: 'config' }), /belongs elsewhere/, 'of another column')
  t.equal(cipher.seal(metadata('{"a":1}')), null, 'nothing to encrypt')
})

t.test('keys of JSON without encryption are refused', async t => {
  t.throws(() => ownCipher(readConfig({}, { aes_json_keys: 'secret' }), ring), /needs LANGGRAPH_AES_KEY/)
})
