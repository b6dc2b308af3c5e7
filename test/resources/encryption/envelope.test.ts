import t from 'tap'
import {
  bytesOf,
  fromBytes,
  fromText,
  isTyped,
  plainType,
  type Sealed,
  textOf,
  typedOf,
  unpacked,
} from '../../../workers/resources/encryption/envelope.js'

const sealed = (kind: Sealed['kind'], bytes: Uint8Array): Sealed => {
  const context = { tenant: 'a\u0001b', deep: [1, null, 'ü'] }
  return { app: 'app', context, kind, model: 'thread', field: 'metadata', bytes }
}
const every = Uint8Array.from({ length: 256 }, (_, i) => i)
const json = Buffer.from('{"a":"\\u0001","b":"ü"}')

t.test('a value in a column of text', async t => {
  for (const one of [sealed('json', json), sealed('blob', every), sealed('blob', new Uint8Array(0))]) {
    const found = fromText(textOf(one))!
    t.same({ ...found, bytes: [...found.bytes] }, { ...one, bytes: [...one.bytes] })
  }
})

t.test('a value in a column of bytes, and in one with a type', async t => {
  const one = sealed('blob', every)
  t.same([...fromBytes(bytesOf(one))!.bytes], [...every])
  const { type, value } = typedOf('msgpack', one)
  t.ok(isTyped(type))
  t.equal(plainType(type), 'msgpack')
  t.same([...unpacked(value).bytes], [...every])
})

t.test('plain values are not taken for encrypted ones', async t => {
  for (const text of ['', '{}', '"\u0001"', 'null', '\u0001{}']) t.equal(fromText(text), null, JSON.stringify(text))
  t.equal(fromBytes(Buffer.from('{"a":1}')), null)
  t.equal(fromBytes(new Uint8Array(0)), null)
  t.notOk(isTyped('json'))
})
