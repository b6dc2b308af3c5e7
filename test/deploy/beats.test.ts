/** The memory of deploy workers of the beats that graph workers of a revision send. */
import type { Msg } from 'nats'
import t from 'tap'
import type { Link } from '../../bus/connect.js'
import { poolOf } from '../../schemas/deploy-calls.js'
import { token } from '../../schemas/ids.js'
import { beat } from '../../schemas/subjects.js'
import { openBeats } from '../../workers/deploy/images/beats.js'

t.test('beats of a revision are its own, and bounded', t => {
  let receive: (message: Msg) => void = () => {}
  const link = {
    subscribe(_: string, onMessage: (message: Msg) => void) {
      receive = onMessage
      return { unsubscribe() {} }
    },
  }
  const beats = openBeats(link as unknown as Link)
  t.teardown(() => beats.close())
  const [mine, other] = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002']
  const send = (revision_id: string, replica: string, description = '') => {
    const body = { revision_id, replica, graphs: [{ graph_id: 'g', description }] }
    receive({ subject: beat(token('pool', poolOf(mine!))), data: Buffer.from(JSON.stringify(body)) } as unknown as Msg)
  }
  const names = Array.from({ length: 200 }, (_, n) => `r${n}`)
  for (const name of names) send(mine!, name)
  t.throws(() => send(mine!, 'one more'), /too many/)
  send(mine!, 'r0')
  t.throws(() => send(mine!, 'r0', 'x'.repeat(300_000)), /too large/)
  t.throws(() => send(other!, 'r0'), /another pool/)
  t.same(
    names.map(name => beats.graphsOf(mine!, name)?.length),
    names.map(() => 1),
  )
  t.equal(beats.graphsOf(mine!, 'one more'), null)
  t.equal(beats.graphsOf(other!, 'r0'), null)
  t.end()
})
