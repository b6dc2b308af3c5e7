import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { readStream } from '../helpers/sse.js'

t.test('start, the printed curl, tokens, disconnect, resume', async t => {
  const cluster = await startCluster({ app: 'examples/chat' })
  t.teardown(() => cluster.stop())
  const body = {
    assistant_id: 'agent',
    input: { messages: [{ role: 'user', content: 'Tell me a story' }] },
    stream_mode: 'messages-tuple',
    stream_resumable: true,
    on_disconnect: 'continue',
  }
  const first = await readStream(`${cluster.url}/runs/stream`, { method: 'POST', body, stopAfter: 7 })
  t.equal(first.frames[0]!.event, 'metadata')
  const { run_id } = JSON.parse(first.frames[0]!.data) as { run_id: string }
  t.equal(first.headers.get('content-location'), `/runs/${run_id}`)
  t.equal(first.headers.get('location'), `/runs/${run_id}/stream`)
  const rest = await readStream(`${cluster.url}/runs/${run_id}/stream`, {
    headers: { 'last-event-id': `${first.frames.at(-1)!.id}` },
  })
  t.ok(rest.ended)
  const all = [...first.frames, ...rest.frames]
  t.same(
    all.map(frame => frame.id),
    all.map((_, i) => i),
    'every id once and in order',
  )
  const again = await readStream(`${cluster.url}/runs/${run_id}/stream`, { headers: { 'last-event-id': '-1' } })
  t.same(again.frames, all, 'the whole stream again, byte for byte')
  const tokens = all
    .filter(frame => frame.event === 'messages')
    .map(frame => (JSON.parse(frame.data) as [{ content: string }])[0].content)
  t.ok(tokens.length > 5 && tokens.join('').length > 20, tokens.join(''))
})
