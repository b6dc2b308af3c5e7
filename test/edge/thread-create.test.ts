/** A create of a thread whose worker is silent, or whose answer is lost, is sent again and makes one thread. */
import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { rpc } from '../../schemas/subjects.js'
import { startRoles } from '../helpers/cluster.js'

t.setTimeout(120_000)
const ID = '01a21d99-ffe4-708c-ad4c-2e8083904ad3'

t.test('creates of threads that are sent twice', async t => {
  const roles = await startRoles({ graphs: 0 })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const post = async (path: string, body: object) => {
    const answer = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) })
    return { status: answer.status, body: (await answer.json()) as { thread_id: string; detail?: string } }
  }
  const count = async () => (await post('/threads/count', {})).body as unknown

  await t.test('the second call answers the thread of the first', async t => {
    const link = await openLink({ url: roles.nats.url('edge'), role: 'edge', log: openLog('test', 'silent') })
    t.teardown(() => link.close())
    const caller = openCaller(link)
    const create = async (body: object) => {
      const head = { request_id: 'test', makes: ID }
      const answer = await caller.call(rpc('threads', 'create'), head, Buffer.from(JSON.stringify(body)))
      return { status: answer.head.status ?? 200, text: Buffer.from(answer.body).toString() }
    }
    const first = await create({ metadata: { n: 1 } })
    t.match(first, { status: 200 })
    t.match(JSON.parse(first.text), { thread_id: ID, metadata: { n: 1 } })
    t.same(await create({ metadata: { n: 1 } }), first)
    t.equal(await count(), 1)
    t.match(await create({ thread_id: ID }), { status: 409 }, 'an id of the client is a conflict')
    caller.close()
  })

  await t.test('a worker that takes the call and says nothing', async t => {
    const link = await openLink({ url: roles.nats.url('resources'), role: 'resources', log: openLog('test', 'silent') })
    t.teardown(() => link.close())
    let taken = 0
    link.subscribe('rpc.threads.create', () => void taken++, { queue: 'threads' })
    await link.nc.flush()
    const before = (await count()) as number
    let made = 0
    while (taken < 2) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => post('/threads', { metadata: { made } })))
      for (const { status, body } of answers) t.equal(status, 200, body.detail ?? '')
      t.equal(new Set(answers.map(({ body }) => body.thread_id)).size, 8)
      made += 8
    }
    t.equal(await count(), before + made, 'one thread for each request')
  })
})
