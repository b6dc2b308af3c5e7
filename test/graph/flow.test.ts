/** How runs are held back that publish faster than the broker takes their events. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { limitFlow, resumeFlow } from '../../workers/graph/flow.js'
import type { ActiveRun } from '../../workers/graph/run-table.js'
import { type Frame, TO_HOST } from '../../workers/pipe.js'

const MB = 1024 * 1024

/** Runs in one host, whose publishers are congested from 4 MB on. `closed`: its pipe is not read. */
function stage() {
  const sent: string[] = []
  const reasons = new Set<object>()
  const host = {
    lateBytes: 0,
    send: ({ kind, slot }: Partial<Frame>) => sent.push(`${kind === TO_HOST.pause ? 'pause' : 'resume'} ${slot}`),
    pause: (reason: object) => void reasons.add(reason),
    resume: (reason: object) => void reasons.delete(reason),
  }
  const runOf = (slot: number) => {
    let waiting = 0
    let relieve = () => {}
    const publisher = {
      isCongested: () => waiting >= 4 * MB,
      relieved: () => new Promise<void>(resolve => (relieve = resolve)),
    }
    const run = { host, slot, publisher, hold: null, stopReason: null } as unknown as ActiveRun
    return {
      run,
      send(bytes: number) {
        waiting += bytes
        limitFlow(run, bytes)
      },
      /** The broker has taken everything, or 10 s have passed. */
      async relieve(left = 0) {
        waiting = left
        relieve()
        await turn()
      },
    }
  }
  return { sent, host, closed: () => reasons.size > 0, runOf }
}

t.test('a run with too much is paused in its host, and the pipe is read on', async t => {
  const { sent, closed, runOf } = stage()
  const [large, small] = [runOf(1), runOf(2)]
  large.send(3 * MB)
  t.same(sent, [])
  large.send(MB)
  small.send(100)
  t.same(sent, ['pause 1'])
  large.send(17 * MB)
  t.notOk(closed(), 'what was in the pipe is no fault of the host')
  await large.relieve(4 * MB)
  t.same(sent, ['pause 1'], 'until the broker has taken enough')
  await large.relieve()
  t.same(sent, ['pause 1', 'resume 1'])
  large.send(5 * MB)
  t.same(sent, ['pause 1', 'resume 1', 'pause 1'])
})

t.test('the pipe of a host that sends more of its paused runs is not read', async t => {
  const { sent, host, closed, runOf } = stage()
  const [one, other] = [runOf(1), runOf(2)]
  for (const { send } of [one, other]) {
    send(4 * MB)
    send(16 * MB)
  }
  t.notOk(closed())
  one.send(1)
  t.ok(closed())
  await one.relieve(20 * MB)
  t.notOk(closed(), 'after a while its other runs are heard')
  other.send(1)
  t.ok(closed(), 'and one frame closes it again')
  await other.relieve()
  t.notOk(closed())
  one.send(1)
  t.notOk(closed())
  await one.relieve()
  t.same(sent, ['pause 1', 'pause 2', 'resume 2', 'resume 1'])
  t.equal(host.lateBytes, 0)
})

t.test('a run that stops or has ended is resumed once, and a stopped one is not paused again', async t => {
  const { sent, closed, runOf } = stage()
  const { run, send, relieve } = runOf(1)
  send(4 * MB)
  resumeFlow(run)
  resumeFlow(run)
  t.same(sent, ['pause 1', 'resume 1'])
  await relieve(4 * MB)
  run.stopReason = 'cancel'
  send(MB)
  send(MB)
  t.same(sent, ['pause 1', 'resume 1'], 'it sends its end')
  t.notOk(closed())
  send(32 * MB)
  t.ok(closed(), 'within bounds')
  resumeFlow(run)
  t.notOk(closed())
})
