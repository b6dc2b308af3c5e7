/** Creates of runs that no worker answers: repeated while the cluster is ready, else answered with what is known. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openLink } from '../../../bus/connect.js'
import { entriesOf, KIND, messagesOf, NOTHING } from '../../../bus/envelope.js'
import { openLog } from '../../../bus/log.js'
import { root } from '../../../cli/root.js'
import { openStage, THREAD } from '../stage.js'

t.setTimeout(120_000)

/** An edge whose workers take every call and say nothing; only `/ready` may be answered. */
async function silentStage(t: Test, isReady: boolean) {
  const stage = await openStage()
  const link = await openLink({ url: stage.nats.url('resources'), role: 'resources', log: openLog('test', 'silent') })
  t.teardown(async () => {
    await link.close()
    await stage.close()
  })
  await stage.worker.close()
  /** Ids of runs, as often as they were sent. */
  const sent: string[] = []
  let answers = false
  const answer = (reply: string, id: number, run_id: string) => {
    const run = { run_id, thread_id: THREAD, stateless: false }
    const head = Buffer.from(JSON.stringify({ status: 200, run }))
    for (const bytes of messagesOf([{ kind: KIND.whole, id, time: 0, head, body: Buffer.from('{}') }]))
      link.nc.publish(reply, bytes)
  }
  for (const noun of ['runs', 'threads']) {
    link.subscribe(`rpc.${noun}.*`, ({ data, reply }) => {
      for (const { id, head } of entriesOf(data)) {
        const { run } = JSON.parse(Buffer.from(head).toString()) as { run?: { run_id: string } }
        if (run !== undefined) sent.push(run.run_id)
        if (answers) answer(reply!, id, run!.run_id)
      }
    })
    link.subscribe(`rpc.${noun}.*.all`, () => {})
  }
  if (isReady)
    link.subscribe('rpc.system.ready', ({ data, reply }) => {
      answers = true
      for (const { id } of entriesOf(data))
        for (const bytes of messagesOf([
          { kind: KIND.whole, id, time: 0, head: Buffer.from('{"status":200}'), body: NOTHING },
        ]))
          link.nc.publish(reply!, bytes)
    })
  await link.nc.flush()
  const post = (path: string, headers: { [name: string]: string } = {}) =>
    fetch(`http://127.0.0.1:${stage.port}${path}`, { method: 'POST', headers, body: '{"id":7,"method":"run.start"}' })
  return { stage, sent, post }
}

t.test('a create is answered 503 when the cluster is not ready, and the answer says how to go on', async t => {
  const { stage, sent, post } = await silentStage(t, false)
  const paths = ['/runs', '/runs/wait', '/runs/stream', '/runs/batch']
  const ofThread = ['runs', 'runs/wait', 'runs/stream', 'commands'].map(last => `/threads/${THREAD}/${last}`)
  const { WebSocket } = createRequire(join(root, 'package.json'))('ws')
  const socket = new WebSocket(`ws://127.0.0.1:${stage.port}/threads/${THREAD}/stream/events`)
  await new Promise(done => socket.on('open', done))
  const message = new Promise<Buffer>(done => socket.on('message', done))
  socket.send('{"id":7,"method":"run.start"}')
  const answers = await Promise.all([...paths, ...ofThread].map(path => post(path)))
  const told: string[] = []
  for (const [i, answer] of answers.entries()) {
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('retry-after'), '1')
    const { detail } = (await answer.json()) as { detail: string }
    const [, run_id, path] = /run (\S+) .*not known: GET (\S+) answers 200 then$/.exec(detail) ?? []
    told.push(run_id!)
    t.equal(path, `${i < paths.length ? '' : `/threads/${THREAD}`}/runs/${run_id}`, detail)
  }
  const { id, type, message: text } = JSON.parse((await message).toString())
  t.match({ id, type }, { id: 7, type: 'error' }, 'a command of a WebSocket')
  told.push(/run (\S+) of this command .*not known/.exec(text)![1]!)
  socket.close()
  t.same([...sent].sort(), told.sort(), 'each was sent once')

  const withKey = await post('/runs', { 'idempotency-key': 'k' })
  t.match(await withKey.json(), { detail: /not known: repeat the request with the same Idempotency-Key$/ })
})

t.test('a create that reached no worker was not accepted, and the answer says no more', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  await stage.worker.close()
  const answer = await fetch(`http://127.0.0.1:${stage.port}/runs`, { method: 'POST', body: '{}' })
  t.equal(answer.status, 503)
  t.same(await answer.json(), { detail: 'No worker serves this request at the moment: start "weft resources"' })
})

t.test('a create is repeated with its id while the cluster is ready', async t => {
  const { sent, post } = await silentStage(t, true)
  const answer = await post(`/threads/${THREAD}/runs`)
  t.equal(answer.status, 200)
  const [first, ...others] = sent
  t.same(others, [first], 'once more, after the first worker was silent')
  t.equal(answer.headers.get('content-location'), `/threads/${THREAD}/runs/${first}`)
})
