/** Slots that a graph worker keeps free for resource workers. */
import t from 'tap'
import type { HandOver, SlotOffer } from '../../schemas/calls.js'
import { token } from '../../schemas/ids.js'
import type { Claimed } from '../../workers/graph/claims.js'
import { openOffers } from '../../workers/graph/offers.js'

const lease = (run_id: string) => ({
  run_id,
  thread_id: 'thread',
  attempt: 1,
  token: 'x',
  graph_id: 'g',
  resumable: false,
  temporary: true,
  resumable_until_id: null,
})

function opened({ slots = 10, knows = (_graph: string): boolean => true } = {}) {
  let time = 0
  let receive: (message: unknown) => void = () => {}
  let isSubscribed = false
  const claimed: Claimed[] = []
  const followed: string[] = []
  const offers = openOffers({
    link: {
      subscribe: ((_: string, onMessage: typeof receive) => {
        receive = onMessage
        isSubscribed = true
        return { unsubscribe: () => (isSubscribed = false) }
      }) as never,
    },
    pool: token('pool', 'default'),
    worker: 'w',
    freeSlots: () => slots - claimed.length,
    canStart: ({ graph_id }) => knows(graph_id),
    signals: { subscribe: run_id => void followed.push(run_id) },
    onClaimed: one => void claimed.push(one),
    now: () => time,
  })
  offers.open('m')
  return {
    offers,
    claimed,
    followed,
    isSubscribed: () => isSubscribed,
    pass: (ms: number) => (time += ms),
    /** The answer to a request of these bytes; null: none. */
    asks(request: unknown): SlotOffer | null {
      let answer: SlotOffer | null = null
      receive({ json: () => request, respond: (text: string) => (answer = JSON.parse(text)) })
      return answer
    },
    hand: (hand_over: unknown) =>
      offers.start({ head: { request_id: 'x', hand_over: hand_over as HandOver } }, new Uint8Array()),
  }
}

t.test('half of the free slots are offered, and kept free until they are used', async t => {
  const { offers, asks, hand, claimed, followed } = opened()
  const first = asks({ asker: 'a', slots: 100 })!
  t.match(first, { member: 'm', worker: 'w', slots: 5, stamp: 0 })
  t.match(asks({ asker: 'b', slots: 100 }), { slots: 2 }, 'half of the rest for another')
  t.equal(offers.forQueue(0), 3, 'the rest is for the work queue')
  const next = hand({ asker: 'a', stamp: 0, lease: lease('r1') })
  t.match(claimed, [{ run_id: 'r1', confirmed_at: 0, cancelled: false }])
  t.same(followed, ['r1'], 'a cancel reaches it from now on')
  t.equal(next.slots, 3, 'half of what is free without the slots of the other')
  t.ok(await claimed[0]!.job.done(), 'there is no wake-up to acknowledge')
  t.match(asks({ asker: 'a', slots: 1 }), { slots: 1 }, 'a new request replaces the offer')
  t.equal(offers.forQueue(0), 6)
})

t.test('what has no offer is refused', async t => {
  const { asks, hand, pass, offers, claimed } = opened({ slots: 4, knows: graph => graph === 'g' })
  const refused = (of: unknown, why: string) => t.throws(() => hand(of), { code: 'conflict' }, why)
  refused({ asker: 'a', stamp: 0, lease: lease('r1') }, 'no offer')
  asks({ asker: 'a', slots: 1 })
  refused({ asker: 'b', stamp: 0, lease: lease('r1') }, 'the offer of another')
  refused({ asker: 'a', stamp: 0, lease: { ...lease('r1'), graph_id: 'h' } }, 'a graph that is not loaded')
  pass(5_001)
  refused({ asker: 'a', stamp: 0, lease: lease('r1') }, 'an old offer')
  t.equal(offers.forQueue(0), 4, 'its slots are free again')
  asks({ asker: 'a', slots: 1 })
  refused({ asker: 'a', stamp: 0, lease: lease('r1') }, 'an old stamp beside a new offer')
  for (const bad of [
    undefined,
    {},
    { asker: 'a', stamp: 'now', lease: lease('r1') },
    { asker: 'a', stamp: 0, lease: {} },
  ])
    t.throws(() => hand(bad), { code: 'bad_request' })
  t.same(claimed, [])
  t.equal(hand({ asker: 'a', stamp: 5_001, lease: lease('r1') }).slots, 1)
})

t.test('runs that wait in the work queue come first', async t => {
  const { offers, asks, hand } = opened()
  asks({ asker: 'a', slots: 4 })
  t.equal(offers.forQueue(6), 6, 'there are enough for both')
  t.equal(hand({ asker: 'a', stamp: 0, lease: lease('r1') }).slots, 1, 'half of what neither of them needs')
  t.equal(offers.forQueue(9), 9, 'nothing is kept free for others')
  t.throws(() => hand({ asker: 'a', stamp: 0, lease: lease('r2') }), { code: 'conflict' })
  t.equal(asks({ asker: 'a', slots: 4 }), null)
  t.equal(offers.forQueue(0), 9)
  t.match(asks({ asker: 'a', slots: 100 }), { slots: 4 }, 'the work queue is empty')
})

t.test('a single slot, a request that cannot be read, and a worker that stops offer nothing', async t => {
  t.equal(opened({ slots: 1 }).asks({ asker: 'a', slots: 5 }), null, 'the work queue would starve')
  const { asks, hand, offers, isSubscribed } = opened()
  for (const bad of [null, {}, { asker: 'a', slots: -1 }, { asker: 'a', slots: 0.5 }, { asker: 1, slots: 1 }])
    t.equal(asks(bad), null)
  const { stamp } = asks({ asker: 'a', slots: 5 })!
  offers.quiet()
  t.throws(() => hand({ asker: 'a', stamp, lease: lease('r1') }), { code: 'conflict' })
  t.notOk(isSubscribed())
})
