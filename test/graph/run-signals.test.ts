/** Requests for a replay that reach a supervisor while it claims the run. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { token } from '../../schemas/ids.js'
import { openRunSignals } from '../../workers/graph/run-signals.js'
import { until } from '../helpers/until.js'

const run = token<'run'>('run', 'r1')
const bytes = (signal: object) => Buffer.from(JSON.stringify(signal))

function opened(t: { teardown(end: () => void): unknown }) {
  let receive: ((message: unknown) => void) | null = null
  const answered: number[] = []
  const repeated: { after: number; reply: string }[] = []
  const cancelled: string[] = []
  const rings = new Set<string>(['r1'])
  const signals = openRunSignals(
    {
      subscribe: ((_: string, onMessage: typeof receive) => {
        receive = onMessage
        return { unsubscribe: () => (receive = null) }
      }) as never,
      nc: {
        publish: (_: string, data: Uint8Array, { reply }: { reply: string }) =>
          repeated.push({ after: JSON.parse(Buffer.from(data).toString()).after, reply }),
      } as never,
    },
    token('pool', 'default'),
    {
      answer: (_, after) => void answered.push(after),
      ended() {},
      drop: id => void rings.delete(id),
      has: id => rings.has(id),
    },
    60_000,
    {
      cancel: id => void cancelled.push(id),
      locate: (_, checkpoint) => (checkpoint === 'known' ? 7 : null),
    },
  )
  t.teardown(() => signals.close())
  const send = (signal: object, respond?: (text: string) => void) =>
    receive!({ data: bytes(signal), reply: `inbox.${JSON.stringify(signal)}`, respond })
  return { signals, answered, repeated, cancelled, rings, send, isSubscribed: () => receive !== null }
}

t.test('they are answered from the ring when the run begins, and cancels at once', async t => {
  const { signals, answered, repeated, cancelled, send } = opened(t)
  signals.subscribe(run)
  send({ do: 'replay', after: -1 })
  send({ do: 'cancel' })
  t.same(answered, [], 'nobody knows yet whether the events are here')
  t.same(cancelled, ['r1'])
  signals.begin(run)
  send({ do: 'replay', after: 4 })
  t.same(answered, [-1, 4])
  signals.begin(run)
  t.same(answered, [-1, 4], 'each once')
  t.same(repeated, [])
})

t.test('they are sent again when the run is claimed elsewhere', async t => {
  const { signals, answered, repeated, send, isSubscribed } = opened(t)
  signals.subscribe(run)
  send({ do: 'replay', after: 7 })
  signals.dismiss(run)
  t.same(answered, [])
  t.match(repeated, [{ after: 7, reply: /^inbox/ }])
  t.notOk(isSubscribed(), 'its own subscription does not receive them')
})

t.test('an earlier attempt that ran here goes on answering during the next claim', async t => {
  const { signals, answered, repeated, send, isSubscribed } = opened(t)
  signals.subscribe(run)
  signals.begin(run)
  signals.handedBack(run)
  signals.subscribe(run)
  send({ do: 'replay', after: 2 })
  signals.dismiss(run)
  t.same(answered, [2])
  t.same(repeated, [])
  t.ok(isSubscribed())
})

t.test('of an ended run they are answered as long as there is its ring', async t => {
  const { signals, answered, rings, send, isSubscribed } = opened(t)
  signals.subscribe(run)
  signals.begin(run)
  signals.ended(run)
  await sleep(1_500)
  send({ do: 'replay', after: 2 })
  t.same(answered, [2])
  rings.delete(run)
  await until(() => !isSubscribed())
})

t.test('the place of a checkpoint is answered at once, also during the claim', async t => {
  const { signals, send } = opened(t)
  signals.subscribe(run)
  const answers: string[] = []
  const ask = (checkpoint: unknown) => send({ do: 'locate', checkpoint }, text => void answers.push(text))
  ask('known')
  signals.begin(run)
  ask('known')
  ask('unknown')
  ask(7)
  t.same(answers, ['{"after":7}', '{"after":7}', '{"after":null}'], 'what is no text is no question')
})
