import t from 'tap'
import { checkClientJson } from '../../scripts/checks/client-json.js'

t.test('the repository has no violation', async t => {
  t.same(checkClientJson(), [])
})

t.test('a parser where bytes of clients arrive is caught, with file and line', async t => {
  const folder = t.testdir({
    bus: { 'decode.ts': 'JSON.parse(text)\n', 'other.ts': 'JSON.parse(head)\n' },
    edge: {
      'ui.ts': '// JSON.parse(body) in a comment\nconst given = JSON.parse(body)\n',
      'keys.ts': 'JSON.parse(answer)\n',
      protocols: { 'mcp.ts': 'const one = await request.json()\n' },
    },
    workers: {
      host: { app: { 'http.ts': 'JSON.parse(text)\n' } },
      'host-python': { weft_host: { app: { 'http.py': '# json.loads(x)\nvalue = orjson.loads(body)\n' } } },
      resources: {
        'rows.ts': 'get: bytesHandler((_, context) => JSON.parse(row.body))\n',
        'list.ts': 'const row = parseJson(text)\nreturn JSON.stringify(row)\n',
        'push.ts': 'push: bytesHandler(async (bytes, { head }) => JSON.parse(bytes))\n',
      },
    },
  })
  const broken = checkClientJson(folder)
  t.same(
    broken.filter(line => !line.endsWith('parses nothing')),
    [
      'edge/protocols/mcp.ts:1: what a client sent is parsed by bus/decode.ts only',
      'edge/ui.ts:2: what a client sent is parsed by bus/decode.ts only',
      'workers/host/app/http.ts:1: what a client sent is parsed by bus/decode.ts only',
      'workers/host-python/weft_host/app/http.py:2: what a client sent is parsed by bus/decode.ts only',
      'workers/resources/push.ts:1: what a client sent is parsed by bus/decode.ts only',
      'workers/resources/list.ts:2: what was read with exact integers is written by jsonText of schemas/exact.ts',
    ],
  )
  t.ok(
    broken.some(line => line.includes('edge/deployed.ts parses nothing')),
    'a row without its file',
  )
})
