/** A process writes to the broker once for each turn of its event loop, and messages keep their order. */
import { Socket } from 'node:net'
import { setImmediate as turnEnd } from 'node:timers/promises'
import t from 'tap'
import { openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { startNats } from '../helpers/nats.js'
import { until } from '../helpers/until.js'

const MESSAGES = 50
const LARGE = 64 * 1024

t.test('writes to the broker', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log: openLog('test', 'silent') })
  t.teardown(() => link.close())
  let writes = 0
  const { write } = Socket.prototype
  Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
    if (this.remotePort === nats.port) writes++
    return write.apply(this, args)
  } as typeof write
  t.teardown(() => {
    Socket.prototype.write = write
  })
  const received: number[] = []
  const subject = 'event.test.order'
  const publish = (i: number) => link.nc.publish(subject, `${i}`)
  const numbers = Array.from({ length: MESSAGES }, (_, i) => i)

  await t.test('of several callbacks of a turn', async t => {
    await turnEnd()
    writes = 0
    link.subscribe(subject, ({ data }) => void received.push(Number(Buffer.from(data).toString())))
    for (const i of numbers) {
      publish(i)
      // The client would write here.
      await null
    }
    t.equal(writes, 0, 'nothing leaves before the end of the turn')
    await until(() => received.length === MESSAGES)
    t.same(received, numbers, 'each once, in order, behind the subscription')
    t.equal(writes, 1)
  })

  await t.test('push writes at once', t => {
    writes = 0
    publish(MESSAGES)
    link.push()
    t.equal(writes, 1)
    t.end()
  })

  await t.test('many bytes are not kept until the end of the turn', async t => {
    await turnEnd()
    writes = 0
    for (let i = 0; i < 10; i++) {
      link.nc.publish('event.test.large', new Uint8Array(LARGE))
      await null
    }
    t.ok(writes >= 5, `${writes} writes`)
  })

  await t.test('what was sent before a close arrives', async t => {
    const other = await openLink({ url: nats.url('resources'), role: 'resources', log: openLog('test', 'silent') })
    const before = received.length
    other.nc.publish(subject, `${MESSAGES + 1}`)
    await other.close()
    await until(() => received.length > before)
    t.equal(received.at(-1), MESSAGES + 1)
  })
})
