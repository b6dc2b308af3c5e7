import { type Frame, readStream } from '../../../helpers/sse.js'
import type { Row } from '../../harness/row.js'

const RUNS = 8
const FOREIGN_ID = '4000000'

export const row: Row = {
  number: 13,
  name: 'Resumable streams',
  fault: 'Clients join resumable runs with every form of `Last-Event-ID`, while they execute and afterwards.',
  promised:
    'After a known id exactly the events behind it; all of them after `-1` and `-`; none after an id beyond the end. A ' +
    'malformed id is answered, and its stream has no gap.',
  oneStore: 'events are stored by the broker',
  async run(stage) {
    const roles = await stage.roles({ graphs: 2, env: { N_JOBS_PER_WORKER: '50' } })
    const url = roles.urls[0]!
    const joins = stage.size(200, 1_000)
    const events = 200
    const begin = async (n: number, ms: number) => {
      const { body } = await stage.ledger.call<{ run_id: string }>({
        url,
        path: '/runs',
        body: {
          assistant_id: 'witness',
          input: { file: stage.witness, key: `${n}`, steps: 1, events, ms },
          stream_mode: 'custom',
          stream_resumable: true,
          on_disconnect: 'continue',
          on_completion: 'keep',
        },
      })
      return body!.run_id
    }
    const join = (run: string, id: string, stopAfter = Infinity) =>
      readStream(`${roles.urls[stage.random.between(0, 1)]}/runs/${run}/stream`, {
        headers: { 'last-event-id': id },
        stopAfter,
      })
    let wrong = 0
    let done = 0
    const same = (got: readonly Frame[], expected: readonly Frame[], ended: boolean) => {
      done++
      if (!ended || JSON.stringify(got) !== JSON.stringify(expected)) wrong++
    }
    // While they execute, by what has arrived already.
    for (let round = 0; done < joins; round++) {
      const runs = await Promise.all(Array.from({ length: RUNS }, (_, n) => begin(round * RUNS + n, 1_500)))
      const whole = runs.map(run => join(run, '-1'))
      // A client that breaks off after some events, and comes back with its last id.
      const broken = runs.flatMap(run =>
        Array.from({ length: 4 }, async () => {
          const first = await join(run, '-1', stage.random.between(1, 40))
          const id = first.frames.at(-1)!.id
          return { run, id, ...(await join(run, `${id}`)) }
        }),
      )
      const all = await Promise.all(whole)
      for (const { run, id, frames, ended } of await Promise.all(broken))
        same(frames, all[runs.indexOf(run)]!.frames.slice(id + 1), ended)
      for (const [n, run] of runs.entries()) {
        const { frames, ended } = all[n]!
        if (!ended || frames.length !== events + 1) wrong++
        const id = stage.random.between(0, events)
        for (const start of ['-1', '-']) same((await join(run, start)).frames, frames, ended)
        same((await join(run, `${id}`)).frames, frames.slice(id + 1), ended)
        same((await join(run, FOREIGN_ID)).frames, [], true)
        for (const malformed of ['abc', '1700000000000-5', '']) {
          const { frames: got, ended } = await join(run, malformed)
          same(got, frames.slice(frames.length - got.length), ended)
        }
      }
    }
    stage.expect(wrong === 0, `${wrong} of ${done} joins were wrong`)
    return { load: `${done} joins of runs with ${events} events`, measured: `${done - wrong} of ${done} were exact` }
  },
}
