/** Questions to hosts of which some are blocked by runs. */
import t from 'tap'
import { openHostCalls } from '../../workers/graph/host-calls.js'
import type { GraphHost } from '../../workers/graph/host-process.js'
import { openRunTable } from '../../workers/graph/run-table.js'
import { FROM_HOST, type Frame } from '../../workers/pipe.js'

const QUESTION = Buffer.from('{"thread_id":"t"}')
const answerOf = (id: number): Frame => ({
  kind: FROM_HOST.called,
  flags: 0,
  slot: 0,
  id,
  count: 0,
  body: Buffer.from('an answer'),
})

function stage() {
  const calls = openHostCalls(openRunTable())
  const asked: GraphHost[] = []
  /** `answers`: false for a host that never does. */
  const hostOf = (state: { blocked?: boolean; holder?: number; late?: number }, answers: boolean): GraphHost => {
    const host = {
      slots: new Set(),
      blocked: state.blocked ?? false,
      holder: state.holder ?? 0,
      late: () => state.late ?? 0,
      send({ id }: { id: number }) {
        asked.push(host)
        const frame = answerOf(id)
        if (answers) setImmediate(() => calls.onAnswer(host, frame))
      },
    } as unknown as GraphHost
    return host
  }
  const pickFrom = (hosts: GraphHost[]) => (_: string, tried: ReadonlySet<GraphHost>) =>
    hosts.find(host => !tried.has(host)) ?? null
  return { calls, asked, hostOf, pickFrom }
}

for (const [what, state] of Object.entries({
  'blocked by a run': { blocked: true, holder: 99 },
  paused: { late: 60_000 },
})) {
  t.test(`a question to a host that is ${what} is sent to another host`, async t => {
    const { calls, asked, hostOf, pickFrom } = stage()
    const [stuck, other] = [hostOf(state, false), hostOf({}, true)]
    const { body } = await calls.callAny(pickFrom([stuck, other]), QUESTION)
    t.equal(Buffer.from(body).toString(), 'an answer')
    t.ok(asked[0] === stuck && asked[1] === other && asked.length === 2)
    t.equal(stuck.slots.size, 0, 'the slot is free')
  })

  t.test(`without another host a question to one that is ${what} is refused`, async t => {
    const { calls, hostOf, pickFrom } = stage()
    const asked = calls.callAny(pickFrom([hostOf(state, false)]), QUESTION)
    await t.rejects(asked, { code: 'unavailable', message: /blocked by a run/ })
  })
}

t.test('a host that computes the answer itself is waited for', async t => {
  const { calls, asked, hostOf, pickFrom } = stage()
  const host = hostOf({ blocked: true, holder: 1 }, false)
  const answer = calls.callAny(pickFrom([host, hostOf({}, true)]), QUESTION)
  setTimeout(() => calls.onAnswer(host, answerOf(1)), 3_000)
  t.same((await answer).body, answerOf(1).body)
  t.equal(asked.length, 1)
})

t.test('without any host a question is refused', async t => {
  const { calls } = stage()
  await t.rejects(
    calls.callAny(() => null, QUESTION),
    { code: 'unavailable' },
  )
})
