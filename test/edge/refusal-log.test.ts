import t from 'tap'
import type { Log } from '../../bus/log.js'
import type { Exchange } from '../../edge/http/exchange.js'
import { openRefusalLog } from '../../edge/http/refusal-log.js'

function recorder() {
  const lines: { level: string; [field: string]: unknown }[] = []
  const at = (level: string) => (fields: object, msg: string) => void lines.push({ level, msg, ...fields })
  return { lines, log: { info: at('info'), warn: at('warn') } as unknown as Log }
}
const exchange = (path = '/threads/x', logged: object | null = null) =>
  ({ method: 'GET', path, requestId: 'id-1', received: { logged } }) as Exchange

t.test('each refused request is logged in one line with its reason', t => {
  const { lines, log } = recorder()
  const refused = openRefusalLog(log, () => 0)
  refused(exchange(), 404, JSON.stringify({ detail: 'Thread not found' }))
  refused(exchange(), 503, Buffer.from('{"detail":"away"}'))
  refused(exchange(), 422, JSON.stringify({ detail: [{ loc: ['body', 'limit'], msg: 'too large' }] }))
  refused(exchange('/threads/x', { 'x-client': 'a' }), 400, null)
  const line = { msg: 'request refused', method: 'GET', path: '/threads/x', request_id: 'id-1' }
  t.match(lines, [
    { level: 'info', status: 404, detail: 'Thread not found', ...line },
    { level: 'warn', status: 503, detail: 'away', ...line },
    { level: 'info', status: 422, detail: /too large/ },
    { level: 'info', status: 400, detail: '', headers: { 'x-client': 'a' } },
  ])
  t.notOk('headers' in lines[0]!)
  t.end()
})

t.test('probes are not logged, long texts are cut, and many refusals are summed up', t => {
  const { lines, log } = recorder()
  let now = 0
  const refused = openRefusalLog(log, () => now)
  refused(exchange('/ready'), 503, null)
  t.same(lines, [])
  refused(exchange(`/${'x'.repeat(5_000)}`), 404, 'y'.repeat(5_000))
  t.ok(JSON.stringify(lines).length < 1_000)
  for (let i = 0; i < 1_000; i++) refused(exchange(), 404, null)
  t.equal(lines.length, 20)
  now = 1_000
  refused(exchange(), 404, null)
  t.match(lines.slice(20), [{ level: 'warn', msg: 'more requests were refused', requests: 981 }, { status: 404 }])
  t.end()
})
