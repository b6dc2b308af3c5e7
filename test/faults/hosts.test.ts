import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Started, startWorkers, until, within } from './worker-helper.js'

t.setTimeout(300_000)
const weft = await startWorkers({ run_timeout_secs: 3_600 })
t.teardown(() => weft.stop())

const stepsOf = (run: Started) => run.steps().map(({ step }) => step)
const idsOf = (run: Started) => run.events.map(({ id }) => id)
const increasing = (ids: number[]) => ids.every((id, i) => i === 0 || id > ids[i - 1]!)

const faults = [
  ['exit', 'ProcessExit', /exit code 3/],
  ['abort', 'ProcessExit', /abort/],
  ['exception', 'UncaughtException', /RangeError: thrown from a timer/],
  ['rejection', 'UnhandledRejection', /TypeError: nobody catches this/],
  ['oom', 'OutOfMemory', /512 MB/],
  ['oomSlowly', 'OutOfMemory', /512 MB/],
] as const

for (const [harm, error, message] of faults) {
  t.test(`${harm}: one run pays, after three attempts it ends; the others finish`, async t => {
    const others: Started[] = []
    for (let n = 0; n < 20; n++) others.push(await weft.run('steps', { steps: 30 }))
    const thread_id = await weft.thread()
    const bad = await weft.run('poison', { steps: 5, at: 2, harm }, { thread_id, body: { durability: 'sync' } })
    const ended = await within(60_000, bad.ended)
    t.match(ended, { status: 'error', error: { error, message } })
    t.same(stepsOf(bad), [1, 2, 2, 2], 'three attempts, and nothing that was checkpointed ran again')
    t.ok(increasing(idsOf(bad)), 'ids increase over attempts')
    t.match(bad.events.at(-1), { event: 'error', id: ended.last_event_id, data: { error } })
    t.match(await weft.threadRow(thread_id), { status: 'error' })
    for (const run of others) t.match(await within(60_000, run.ended), { status: 'success' })
    const next = await weft.run('steps', { steps: 2, at: 0 }, { thread_id })
    t.match(await within(20_000, next.ended), { status: 'success' }, 'the thread is free')
  })
}
void until
void sleep
