import t from 'tap'
import { clientFault, jsonFault, MAX_DEPTH, MAX_KEYS, MAX_VALUES } from '../../schemas/json.js'

const fault = (text: string, most?: number) => jsonFault(Buffer.from(text), most)
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
const keys = (n: number) => `{${Array.from({ length: n }, (_, i) => `"${i}":0`)}}`

t.test('each limit is exact', async t => {
  t.equal(fault(nested(MAX_DEPTH)), null)
  t.match(fault(nested(MAX_DEPTH + 1)), /deeper than 100 levels/)
  t.equal(fault(`[${'1,'.repeat(MAX_VALUES - 1)}1]`), null)
  t.match(fault(`[${'1,'.repeat(MAX_VALUES)}1]`), /more than 1000000 values/)
  t.equal(fault(keys(MAX_KEYS)), null)
  t.match(fault(keys(MAX_KEYS + 1)), /more than 100000 keys/)
  t.equal(fault('[1,2,3]', 3), null)
  t.match(fault('[1,2,3]', 2), /more than 2 values/)
})

t.test('what is within strings does not count', async t => {
  t.equal(fault(`["${'[{,:'.repeat(100_000)}"]`, 1), null)
  t.equal(fault('["a\\"b,c","\\\\",3]', 3), null)
  t.match(fault('["\\\\",2,3]', 2), /values/)
})

t.test('bytes of another format pass, and what is behind the first value does', async t => {
  const commas = 'a,b,c\n'.repeat(10)
  for (const text of [
    '',
    ' ',
    commas,
    `"${commas}"`,
    `1${commas}`,
    `[1]\n${commas}`,
    `{"a":1}\n`.repeat(10),
    '{}[1,2,3]',
  ])
    t.equal(fault(text, 2), null, text.slice(0, 20))
  t.equal(jsonFault(new Uint8Array([0xff, 0x2c, 0x2c, 0x2c]), 2), null)
})

t.test('what decoders and parsers leave out hides nothing', async t => {
  for (const before of ['\ufeff', ' \t\r\n', '\ufeff \n']) t.match(fault(`${before}[1,2,3]`, 2), /values/)
})

t.test('no text of more values passes that a parser would take', async t => {
  const parts = ['[', ']', '{', '}', ',', ':', '1', '"a"', '"', '\\', ' ', '\ufeff']
  let parsed = 0
  const look = (text: string, depth: number): void => {
    if (fault(text, 2) === null && text.endsWith(']'))
      try {
        const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''))
        parsed++
        if (Array.isArray(value) && value.flat(5).length > 2) t.fail(text)
      } catch {
        // It is no JSON.
      }
    if (depth > 0) for (const part of parts) look(text + part, depth - 1)
  }
  look('', 5)
  look('[1,1', 3)
  t.ok(parsed > 10, `${parsed} texts`)
})

t.test('a text that is not Unicode, and a number that is no double, are invalid', async t => {
  const code = (text: string) => clientFault(Buffer.from(text))?.code
  const texts = [
    '"\\ud83d"',
    '"x\\udc00"',
    '"\\ud83d\\ud83d\\ude00"',
    '"\\uD83D\\u0041"',
    '"\\ud83d\\\\ude00"',
    '"\\ud83dde00"',
  ]
  for (const bad of [...texts, '1e400', '-1E+309', '1'.repeat(310), `[1e5,${'9'.repeat(400)}.5]`]) {
    t.equal(code(`{"a":[0,${bad}]}`), 'invalid', bad)
    t.equal(fault(`{"a":[0,${bad}]}`), null, 'what hosts have made passes')
    if (bad.startsWith('"')) t.equal(code(`{${bad}:1}`), 'invalid', `the key ${bad}`)
  }
  for (const good of [
    '"\\ud83d\\ude00"',
    '"\\uD83D\\uDE00"',
    '"\\\\ud83d"',
    '"\\ue000\\ud7ff"',
    '1e308',
    '1e-400',
    '"1e400"',
    'true',
    '1.5E2',
  ])
    t.equal(code(`{"a":[${good},${good}]}`), undefined, good)
})
