/** Who calls, as the server around says it: the `auth` of docs/guide/inside.md, and headers that clients cannot choose. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { createHandler } from '../../handler/handler.js'
import { blocksOf } from '../helpers/documents.js'

t.setTimeout(120_000)

t.test('each user of the server around has threads of their own, whatever headers clients send', async t => {
  const app = mkdtempSync(join(tmpdir(), 'weft-identity-'))
  const { text } = blocksOf('docs/guide/inside.md').find(({ text }) => text.startsWith('import { Auth'))!
  writeFileSync(join(app, 'auth.ts'), text)
  symlinkSync(join(root, 'node_modules'), join(app, 'node_modules'))
  const graph = join(root, 'test/apps/chat/graph.mjs')
  writeFileSync(
    join(app, 'langgraph.json'),
    JSON.stringify({ graphs: { chat: `${graph}:chat` }, auth: { path: './auth.ts:auth' } }),
  )
  const weft = createHandler({
    app,
    data: join(app, '.weft'),
    dev: false,
    env: { AGENT_SECRET: 'of the test', LOG_LEVEL: 'warn' },
    headers: request => ({
      'x-secret': 'of the test',
      // A session would say it.
      'x-user': /user=(\w+)/.exec((request as Request).headers.get('cookie') ?? '')?.[1] ?? null,
    }),
  })
  t.teardown(async () => {
    await weft.close()
    rmSync(app, { recursive: true, force: true })
  })
  const ask = async (path: string, headers: { [name: string]: string }, body: object = {}) => {
    const asked = {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    }
    const answer = await weft(new Request(`http://x${path}`, asked))
    return { status: answer.status, body: (await answer.json()) as { length: number; thread_id: string } }
  }
  const [alice, bob] = [{ cookie: 'user=alice' }, { cookie: 'user=bob' }]
  const { thread_id } = (await ask('/threads', alice)).body
  const run = { assistant_id: 'chat', input: { messages: [{ role: 'user', content: 'hello' }] } }
  t.equal((await ask(`/threads/${thread_id}/runs/wait`, alice, run)).status, 200)
  t.equal((await ask(`/threads/${thread_id}/runs/wait`, bob, run)).status, 404)
  t.equal((await ask('/threads/search', alice)).body.length, 1)
  t.equal((await ask('/threads/search', bob)).body.length, 0)
  t.equal(
    (await ask('/threads/search', { ...bob, 'x-user': 'alice' })).body.length,
    0,
    'a header of the client is replaced',
  )
  t.match(await ask('/threads/search', { 'x-user': 'alice' }), { status: 401 }, 'or removed')
  const direct = await fetch(`${await weft.ready()}/threads/search`, { method: 'POST', headers: { 'x-user': 'alice' } })
  t.equal(direct.status, 401, 'who comes without the server around has no secret')
})
