/** The API inside servers of other frameworks, which start a Weft together, through the official SDK. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createHandler } from '../../handler/handler.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'
import { SERVERS } from './servers.js'

t.setTimeout(200_000)
const data = mkdtempSync(join(tmpdir(), 'weft-inside-'))
const options = {
  app: 'test/apps/chat',
  data,
  dev: false,
  env: { WEFT_STOP_MS: '1000', WEFT_DISCONNECT_GRACE_MS: '100', LOG_LEVEL: 'warn', WEFT_HOST_USER: '' },
}
t.teardown(async () => {
  await createHandler(options).close()
  rmSync(data, { recursive: true, force: true })
})

const says = (content: string) => ({ messages: [{ role: 'user', content }] })
const urls = new Set<string>()

for (const [name, open] of Object.entries(SERVERS))
  t.test(name, async t => {
    const server = await open(options, { headers: {} })
    t.teardown(() => server.close())
    urls.add(await createHandler(options).ready())
    const client = lines.at(-1)!.connect(server.url)
    const { thread_id } = await client.threads.create()

    let text = ''
    let whileRunning: string | undefined
    const input = says('count 40 20')
    for await (const { event, data } of client.runs.stream(thread_id, 'chat', {
      input,
      streamMode: 'messages-tuple',
    })) {
      if (event !== 'messages') continue
      text += data[0].content
      whileRunning ??= (await client.threads.get(thread_id)).status
    }
    t.equal(text, Array.from({ length: 40 }, (_, i) => i + 1).join(' '))
    t.equal(whileRunning, 'busy', 'the first token comes before the last one is made')

    const run = await client.runs.create(thread_id, 'chat', { input: says('hello'), streamResumable: true })
    const joined = async (lastEventId?: string) => {
      const ids: (string | undefined)[] = []
      for await (const { id } of client.runs.joinStream(thread_id, run.run_id, { lastEventId })) ids.push(id)
      return ids
    }
    const all = await joined('-1')
    t.ok(all.length > 1)
    t.same(await joined(all[0]), all.slice(1), 'a stream is resumed behind an event')

    const leaving = new AbortController()
    let left = ''
    const stream = client.runs.stream(thread_id, 'chat', {
      input: says('count 1000 50'),
      onDisconnect: 'cancel',
      streamMode: 'messages-tuple',
      signal: leaving.signal,
      onRunCreated: ({ run_id }) => {
        left = run_id
      },
    })
    for await (const { event } of stream) if (event === 'messages') leaving.abort()
    const ended = await until(async () => {
      const { status } = await client.runs.get(thread_id, left)
      return status !== 'running' && status
    })
    t.equal(ended, 'interrupted', 'its client has disconnected')

    const wrong = { input: says('hello'), multitaskStrategy: 'sometimes' as never }
    await t.rejects(client.runs.create(thread_id, 'chat', wrong), {
      message: /HTTP 422: \{"detail":"multitask_strategy: expected /,
    })
    await t.rejects(client.threads.get('00000000-0000-4000-8000-000000000000'), {
      message: /HTTP 404: \{"detail":"Thread with ID /,
    })
    await client.store.putItem(['a'], 'b', { c: 1 })
    await client.store.deleteItem(['a'], 'b')
    t.equal((await client.store.searchItems(['a'])).items.length, 0, 'a DELETE has its body')

    const plain = await fetch(`${server.url}/threads/${thread_id}/runs/`, { redirect: 'manual' })
    t.match([plain.status, plain.headers.get('location')], [307, '../runs'])
    const outside = await fetch(server.url.replace(/agent$/, 'agents'))
    t.equal(outside.status, 404)
  })

t.test('the servers share one Weft', t => {
  t.equal(urls.size, 1)
  t.end()
})
